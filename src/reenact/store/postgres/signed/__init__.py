"""What keys of a store sign and vouch for in its database: the rows of notes, keys and idempotency keys.

In and out: the rows that `reenact.store.keys` and `reenact.store.beside` reason about. Begin with `notes.py`.
"""
