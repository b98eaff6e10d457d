"""Many runs of a store file at once: lists of them, page by page, and what they add up to.

In: a connection to read through. Out: rows of runs, the newest first; tallies. Begin with `runs.py`.
"""
