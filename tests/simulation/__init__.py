"""A deterministic simulation: many executors on one store, in one thread, in an order that a seed decides.

In: a seed. Out: what was broken, or that nothing was. Begin: `schedule.py`, which is one schedule from its seed to the
judge's word.

`loop.py` is the event loop: it decides whose turn it is, and its time is all the time there is. `executor.py` is a
process that can be killed or frozen at any turn: a runtime whose clock, threads, heartbeat and writer are the loop's.
`machine.py` is what all of them have of their machine alike. `world.py` is what they work on: skills with a ledger of
their own, plans and session programs, and what must have become of them. `campaign.py` counts:
`python -m tests.simulation COUNT SEED`, or `… 1 SEED` for one again.
"""
