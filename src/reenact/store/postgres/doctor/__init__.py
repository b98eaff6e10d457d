"""What only PostgreSQL knows when `reenact doctor` looks at a store.

In: a URL, of a store that may be damaged or not there. Out: findings about its server, its schema and its keys, and the
rows that `reenact.store.doctor` asks for. Begin with `examination.py`.
"""
