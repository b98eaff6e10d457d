"""The store's transparency log: its seals, in order, are the leaves of one tree, whose heads are signed.

In: seals that are durable. Out: signed checkpoints, proofs of inclusion and consistency, and what witnesses said. Begin
with `log.py`; `follower.py` keeps the tree up with the seals; the rows are an engine's (`rows.py` says which).
"""
