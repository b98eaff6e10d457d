"""The engine that a test runs on: a store in a file, or in a database. The one seam is in `places.py`.

`suites.py` says which suites run on both, and which of their tests `make test` takes on PostgreSQL; `once.py` lists
each test of them that runs on one engine alone, with its reason. `plugin.py` tells pytest.
"""
