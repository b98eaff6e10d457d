"""Finds code that decides on what may differ between two runs.

    files               paths to syntax trees; nothing is imported, nothing is run
    statements … scope  one function after the other: statements, calls and expressions build on the scope, which
                        knows the names in sight and reports
    values, known       what is known of a value; what is known of Python's library
    findings            the rules, which `rules.md` explains, and what was found
    suppress → output   comments that silence; text, JSON and SARIF

`check.check(paths)` is the whole of it: begin to read there. In: paths. Out: findings with their places.
"""
