"""Real PostgreSQL servers for tests, and what stands before them: a transaction pooler, and a proxy that breaks.

Begin to read in `fixtures.py`. Nothing here is a mock: `server.py` starts a server from binaries that `binaries.py`
finds, and `keeper.py` sees to it that none outlives the tests.
"""
