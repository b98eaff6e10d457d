"""Skills: declaring them, finding them, and what they are given.

`@skill` (`declare`) turns a typed function into a `Skill` with schemas and metadata; the `registry` resolves
`id@version`; a call gets its parameters and a `context`, and gives back a JSON value. In come typed functions, out
come declared skills, found by id and version. Begin with `declare`.
"""
