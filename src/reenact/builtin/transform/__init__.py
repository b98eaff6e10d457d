"""The operations of `json_transform`: a JSON value and a request in, a JSON value out.

`operations` has one function for each; `paths` reads paths into values and holds the limits.
"""
