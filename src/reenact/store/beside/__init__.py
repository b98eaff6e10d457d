"""What lies beside the journals, whichever engine keeps its rows: idempotency keys, money, the key-value map.

In: rows of an engine. Out: what they mean, checked, and the rows to be written. Begin with `idempotency.py`.
"""
