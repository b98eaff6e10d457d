"""The embedded engine: one SQLite file in WAL mode, `synchronous=FULL`. docs/spec/store_sqlite.md.

In: the verbs of `reenact.store.base`, `evidence` and `doctor.examination`. Out: rows, and nothing of SQLite: its
errors become one line that says what to do.

Begin with `store.py` (what is written; the rows of a commit are `appending.py`), on `reader.py` (what is read) and
`connection.py` (transactions, waiting, errors). The tables are `sql/`; `evidence/` gives their rows to checks,
`doctor/` looks at the file itself.
"""
