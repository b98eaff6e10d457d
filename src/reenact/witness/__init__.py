"""Witnesses and anchors of a store's log: somebody outside keeps a head, so that no past can be rewritten unseen.

In: a store whose log has grown, and the addresses that its owner named; or, on the other side, checkpoints of logs that
a witness knows. Out: cosignatures, time stamps, and heads that contradict. Begin with `collecting.py` for the store's
side and `cosigner.py` for the witness's. The only part, beside tools and telemetry, that opens connections.
"""
