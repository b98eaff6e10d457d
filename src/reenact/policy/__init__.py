"""Pure decisions: facts in, a decision out. No clock, no I/O, no randomness.

Which code a failure gets (`classify`), whether and when to retry (`retry`, `repeat`), what a call costs (`cost`,
`settle`), whether there is money left (`budget`), what is a duplicate (`replay_control`), what is a secret
(`redaction`). Begin with `taxonomy` and `retry`.
"""
