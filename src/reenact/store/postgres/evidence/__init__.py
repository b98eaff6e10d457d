"""The rows of a PostgreSQL store as they lie there, for whoever checks or exports them.

In: a URL. Out: `reenact.store.evidence.Evidence`, one snapshot of it. Begin with `evidence.py`.
"""
