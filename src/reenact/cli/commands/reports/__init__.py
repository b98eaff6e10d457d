"""Commands about published reports and their inputs: `verify-replay`, `hash`, `backfill`, `rerun`.

They call `reenact.provenance`, and need no store. Begin with `verify_replay`.
"""
