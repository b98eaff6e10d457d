"""The commands, in rooms by what they are about: runs, people, evidence, plans, published reports.

A module holds one command, or two that share everything, under the name that the user types. What it needs is imported
inside the function, so that `reenact --help` and `reenact ls` start fast. Begin with `runs/run.py`.
"""
