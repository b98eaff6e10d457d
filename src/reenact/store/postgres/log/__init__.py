"""The rows of a store's transparency log in PostgreSQL.

In: questions of `reenact.store.log`, and nodes and heads to be written. Out: rows. Begin with `rows.py`.
"""
