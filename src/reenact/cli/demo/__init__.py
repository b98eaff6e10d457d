"""`reenact demo`: a plan that is run, killed, recovered, replayed, exported, verified and tampered with.

Begin with `command`; `acts` is what it does and claims, `workshop` the folder and processes that it works with,
`service` the flaky HTTP server on loopback that the plan calls. Nothing comes in; out come claims, each checked
before it is printed.
"""
