"""Commands about what a store holds: `export`, `verify`, `erase`, `doctor`, `metrics`.

They take a run or an exported folder, or the whole store, and run no skill; out come verdicts, findings, numbers, or
a folder. Begin with `verify`.
"""
