"""How a server is reached: its URL, a few connections for a whole process, deadlines, what its errors say.

In: a URL. Out: rows, and transactions that are begun again where that is safe. Begin with `database.py`.
"""
