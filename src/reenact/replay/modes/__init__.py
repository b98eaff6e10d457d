"""The modes of a replay: mock_replay, full_replay, fork, dry_run; each a source of effects and the usual runtime.

In: a recording. Out: a `ReplayResult`. Begin to read with `mock.py`; `scheduler.py` drives calls of a session that
overlapped in their recorded order, `interrupted.py` is how a live replay goes on after a crash, `throw_away.py` where
one runs that is not kept.
"""
