"""Capturing provenance: what a program reads while it makes a report, written beside the report when it ends.

In come inputs, models, seeds and request ids, out come a sidecar and the replay block in the markdown. `rerun` runs a
recorded command again. Begin with `recording`, the context manager; `capture` does its work.
"""
