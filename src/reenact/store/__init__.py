"""Where the journal is kept: artifact and transition in one transaction, fenced leases, and evidence to be checked.

In: commits of runs, already built, and questions about them. Out: the same bytes, durable; and the rows as they lie
there, for whoever verifies, exports, erases or examines them.

Begin with `base.py`, what every store promises; then `open.py`, which alone knows engines and opens one by its URL, and
`evidence.py`, what checks may ask. What lies beside them is shared by all engines and knows no SQL: how bytes are
packed (`compression.py`, `deltas.py`), signed and named, and what lies beside the journals (`beside/`). An engine is a
folder: `sqlite/`, `postgres/`. What is asked of any of them: `checks/`, `doctor/`.
"""
