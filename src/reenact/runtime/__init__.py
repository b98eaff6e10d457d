"""Running plans and sessions: each call through one journal.

In: a plan or the calls of a session, skills, a store. Out: the run's journal in the store, outcomes to callers, notices
to listeners. Begin to read with `call/drive.py` (the life of one call), then `run.py` (what a run consists of) and
`conduct.py` (a run from where it stands to its end). `engine.py` is what all runs of a process share, `lending.py`
what it lends to one, `opening.py` the one way to open a run and `hold.py` to hold it. Rooms: `call/`,
`gates/`, `writing/`, `effects/`, `plans/`, `session/`, `people/`.
"""
