"""Commands by which a person decides: `approve`, `deny`, `resolve`, `cancel`. Each is recorded with who and why.

They call `runtime.people.decisions`, and say who goes on with the run. Begin with `votes`.
"""
