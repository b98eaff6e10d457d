"""Is a run in a store what was written? Evidence verified where it lies, derived tables rebuilt and compared.

In: a store's rows, through `reenact.store.evidence`, whatever the engine. Out: a report with verdicts, findings and
their places, and the differences of derived tables. Nothing is repaired or written.

Begin with `verification.py`; `rebuild.py` computes what the other tables must hold, `derived.py` compares.
"""
