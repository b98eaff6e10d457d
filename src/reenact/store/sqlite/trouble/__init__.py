"""What goes wrong between this process and the file of a store, and what is said of it.

In: what SQLite raises, a file that somebody else has locked. Out: one line that says what to do next, or the answer
once the way is free. Begin: `waiting.py`; `database_errors.py` puts into words what no waiting helps with.
"""
