"""What is written to a PostgreSQL store: commits, leases, money, votes, erasures.

In: units of work of `reenact.store.base`. Out: rows, in transactions that take their locks first. Begin with
`appending.py`.
"""
