"""A YAML 1.2 reader that gives the JSON value the original tool would hash, or refuses where that is not certain.

A text goes through `reader` (with `cursor`, `flow` and `scalars`) into nodes, through `schema` into values, and out of
`value` as JSON text in JavaScript's form. Begin with `value`.
"""
