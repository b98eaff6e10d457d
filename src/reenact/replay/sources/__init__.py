"""Sources of effects for replays: the recording, or the recording for some steps and the world for others.

In: one dispatch. Out: what the recorded one came to. Begin to read with `recorded.py`; `mixed.py` is full replays and
forks, `dry.py` what a call is expected to do, `stand_in.py` what decisions need to know of a skill whose code is not
there, `instant.py` a clock without waits.
"""
