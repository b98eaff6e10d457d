"""Training data: which tool was called at a step, with what, and what it was worth, out of the journals of sealed runs.

In come runs of a store, out come JSONL files, split by session, and a data card. Begin with `dataset.py`, which writes
them; `examples.py` makes the lines of one run, `card.py` the words.
"""
