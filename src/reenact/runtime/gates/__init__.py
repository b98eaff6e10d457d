"""Gates: checks that may deny a call before it is authorized.

In: a call in PENDING. Out: an approval, a refusal with its code, or that a person has to be asked (`answer.py`).
Begin to read with `order.py`, which asks them in their order; each gate is a file. `state.py` is what they remember
of a run.
"""
