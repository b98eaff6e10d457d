"""The operations of `json_transform`: a JSON value and a request in, a JSON value out.

Begin with `operations`, which has one function for each; `paths` reads paths into values and holds the limits.
"""
