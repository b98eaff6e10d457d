"""Two runs side by side: verdicts by step and aspect, the first difference, content apart.

In: the recorded steps of two runs. Out: a `Comparison`, as a value, as JSON or as text. Begin to read with
`compare.py`; `against.py` holds a replay against its recording, `behaviour.py` is what of a step is compared,
`explain.py` and `nearest.py` tell a difference in words.
"""
