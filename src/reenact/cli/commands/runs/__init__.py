"""Commands that make runs, go on with them, look at them and replay them.

`run`, `resume` and `recover` call the runtime; `ls`, `show` and `diff` read the record; `replay` and `fork` run a
recording again. In come a plan or a run's id, out come results, timelines and comparisons. Begin with `run`.
"""
