"""A look at a whole store, as `reenact doctor` takes it: what is there, what is wrong, what to type.

In: a URL. Out: findings, one line each, in a fixed order. Nothing is changed.

Begin with `examine.py`, the order of the looks. What only an engine can say (files, schema, disk, key) it says through
`examination.py`; what all have in common is here: the clock, `journals.py` of runs that are open, `runs.py`.
"""
