"""The life of one call, from its request to its effect.

In: a step of a run. Out: its entries and attempts staged in the run's journal, and the outcome. `call.py` is the noun;
`begin.py` makes one, `drive.py` performs what its state asks for: the gates (`runtime/gates/`), `authorize.py` (key and
tool_call), `dispatch.py` (the retry loop; `retry.py` decides, `doubt.py` before anything is sent again), `ending.py`
(every end). `artifacts.py` fills in the records. Begin to read with `drive.py`.
"""
