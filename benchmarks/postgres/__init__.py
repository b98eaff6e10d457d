"""What a store in PostgreSQL costs, on a server that is started for it: beside others, far away, and when it is large.

In: nothing. Out: figures; `python -m benchmarks postgres` prints them. Begin with `beside.py`; `large.py` is a campaign
of its own: `python -m benchmarks.postgres.large`.
"""
