"""A whole store copied into an empty one, from one engine to another or the same: with its id, numbers and chains.

In: two sides, each of which gives and takes rows of `tables.py` in the order of their keys. Out: a store that verifies
as the first one did, and a first one that says where it went. Begin with `moving.py`; the sides are the engines' own.
"""
