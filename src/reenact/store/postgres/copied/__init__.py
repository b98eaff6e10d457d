"""A store in a database as one side of a copy, for `reenact.store.copying`, which says what is done when.

In: a URL. Out: rows as every engine gives them, and a schema that they were written to. Begin with `rows.py`.
"""
