"""The rows of an SQLite store as they lie there, for whoever checks or exports them.

In: a file that is only read, or an open connection. Out: `reenact.store.evidence.Evidence`, one snapshot of it. Begin
with `evidence.py` (the store's rows), then `run_evidence.py` (those of one run).
"""
