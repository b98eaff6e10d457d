"""Commands before a run: make a plan, pin it, simulate it; list and describe skills; lint code.

`plan_file` reads a plan and tells a mistake with its line, `plan_output` prints a pinned one. In come a goal, a
plan's file or code, out come a pinned plan, a forecast or findings. Begin with `pin`.
"""
