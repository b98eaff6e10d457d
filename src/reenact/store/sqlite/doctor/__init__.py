"""What only SQLite knows when `reenact doctor` looks at a store.

In: the path of a file, which may be damaged or not there. Out: findings about the file, its log, its schema, its disk
and its key, and the rows that `reenact.store.doctor` asks for. Begin with `examination.py`.
"""
