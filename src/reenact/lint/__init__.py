"""Finds code that decides on what may differ between two runs.

    files → program          paths to syntax trees, trees to modules, classes and functions with their imports
    engine                   analyses each of them, and again when something that it depends on is known better
    statements … frame       what one of them does: statements, patterns, calls, library, invoke, expressions,
                             fields and order build on each other and on the frame, which reports
    abstract, known          what is known of a value; what is known of Python's library
    suppress → output        comments that silence; text, JSON, SARIF

`check.check(paths)` is the whole of it.
"""
