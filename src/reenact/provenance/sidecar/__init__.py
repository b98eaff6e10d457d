"""The sidecar `<report>.replay.json` and the replay block in the report's markdown: reading, checking, writing.

`sidecar` has both versions of the file and `shape` checks them; `block` finds the block in the markdown and `render`
writes it; `backfill` makes sidecars for reports that were published without one. In come markdown and JSON texts, out
come typed sidecars and blocks, and the other way round. Begin with `sidecar`.
"""
