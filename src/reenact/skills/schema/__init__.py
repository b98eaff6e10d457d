"""JSON Schemas of skills: what a function's types ask for, and what a value is held against.

In come a function's type hints, or a schema that somebody else wrote; out come its `Signature` and the places where a
value does not fit, found with bounded `work`. Begin with `signature`.
"""
