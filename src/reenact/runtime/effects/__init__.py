"""Effects: where the result of a dispatch comes from.

In: one dispatch (`AttemptCall`). Out: what came of it (`AttemptResult`). Begin to read with `source.py`, the interface;
`live.py` is the world, and the one place that calls a skill: in the loop (`coroutines.py`), in a thread (`threads.py`)
or in a process of its own (`processes.py`, `forkserver.py`, `child.py`). `reports.py` bounds what a skill says of
itself, `secrets.py` is where secrets come from. Recordings and simulations as sources: `replay/sources/`.
"""
