"""The commands, in packages by what they are about: runs, people, evidence, plans, published reports.

A module holds one command, or two that share everything, under the name that the user types. What it needs is
imported inside the function, so that `reenact --help` and `reenact ls` start fast. In come arguments, out come lines
or a JSON document and an exit code. Begin with `runs/run.py`.
"""
