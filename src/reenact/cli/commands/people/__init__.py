"""Commands by which a person decides: `approve`, `deny`, `resolve`, `cancel`. Each is recorded with who and why.

In come a run, a call and a reason. They call `runtime.people.decisions`, and what they print says who goes on with
the run. Begin with `votes`.
"""
