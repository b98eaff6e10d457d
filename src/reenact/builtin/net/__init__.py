"""The HTTP client of the built-in skills: goes only where a plan allows, bounded in time and size.

`exchange` makes one request: in comes what to send, out come status, headers and body, with the facts of the attempt
reported on the way. `guard` decides which addresses may be reached (SSRF), `transport` connects, `body` reads. Begin
with `exchange`.
"""
