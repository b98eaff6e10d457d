"""The store's transparency log as a stranger checks it: checkpoints, proofs, cosignatures of witnesses, and a policy.

In: bytes that somebody sent, and keys that the reader believes. Out: findings, and the verdict on anchoring. Begin with
`checkpoint.py`, then `merkle.py` and `anchoring.py`. What it writes and reads is C2SP's: docs/spec/log.md.
"""
