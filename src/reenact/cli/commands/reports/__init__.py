"""Commands about published reports and their inputs: `verify-replay`, `hash`, `backfill`, `rerun`.

They call `reenact.provenance`, and need no store: in come reports and files, out come verdicts, hashes and sidecars.
Begin with `verify_replay`.
"""
