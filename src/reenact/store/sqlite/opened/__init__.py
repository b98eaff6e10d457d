"""What a process has open of a store file.

In: a path. Out: its connection, shared by all that open the same file in this process; whether its files are still the
ones that were opened; whose turn it is to write. Begin: `shared.py`.
"""
