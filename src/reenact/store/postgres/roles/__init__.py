"""Who may do what with a store in a database: SQL that an administrator runs.

In: the name of the schema, and names of roles. Out: a script, printed and never executed here. Begin with `grants.py`.
"""
