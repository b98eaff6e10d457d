"""Whatever reads and then writes, stopped between its halves in one process while others do the same.

`crew.py` has the processes, `pairs.py` what they do and what has to come of it, `stopping.py` where one of them stops.
"""
