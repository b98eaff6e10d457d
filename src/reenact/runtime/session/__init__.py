"""Sessions: an agent loop whose calls become a plan as it goes.

In: `session.call(…)`, turns, checks of the work. Out: outcomes that are durable, the history as messages, and at the
end a plan that can be run again. Begin to read with `session.py`; `opening.py` is the block in which one is used,
`beginning.py` and `reopening.py` are how one begins and goes on, `answering/` what a program that was started again is
told from the record, `arguments.py` what a caller may say, `plan.py` the plan that grows, `history.py` how open calls
are ended, `settling.py` how they are driven on, `closing.py` the end of a session, `models/` what it says to a model
and hears from it, `messages.py` the history for a model API, `sync.py` the front without async, `checks.py` commands
that check the work.
"""
