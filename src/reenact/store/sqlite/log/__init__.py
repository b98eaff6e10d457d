"""The rows of the transparency log in SQLite, and those of a witness.

In: what `store/log/` and `witness/` ask for. Out: rows; evidence only ever grows. Begin with `rows.py`.
"""
