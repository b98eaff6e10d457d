"""A store file as one side of a copy, for `reenact.store.copying`, which says what is done when.

In: a path. Out: rows as every engine gives them, and a file that they were written to. Begin with `rows.py`.
"""
