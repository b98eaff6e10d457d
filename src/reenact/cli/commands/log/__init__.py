"""Commands about the store's transparency log and its witnesses: `log`, `witness`.

In: a store, checkpoints that somebody kept, addresses of witnesses. Out: checkpoints, proofs, policies and verdicts, as
C2SP writes them. Begin with `log`.
"""
