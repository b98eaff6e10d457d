"""The store for many machines: one schema of a PostgreSQL database, PostgreSQL 15 or later, behind any pooler.

In: a URL, commits of runs, questions about them. Out: the same bytes as from any other engine. Begin with `store.py`;
the schema is `sql/`, how a server is reached `opened/`, what is written `writing/`.
"""
