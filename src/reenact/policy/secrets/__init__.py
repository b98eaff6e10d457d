"""What a secret looks like: the patterns and names it is known by, its parts, and the encodings it may come back in.

In come values and texts of unknown makers, out come the places of secrets in them; `policy/redaction.py` applies both.
Begin with `patterns`, then `decoding` and `parts`. Nothing here takes longer than its text is long, whatever it says.
"""
