"""Where a bundle's files come from: a zip read in place, payloads that are packed; what lies beside them.

In comes a path; out come files as `verify/folder.py` gives them. Begin with `zipped`, `files_at`.
"""
