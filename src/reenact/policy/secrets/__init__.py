"""What a secret looks like: the patterns and names it is known by, its parts, and the encodings it may come back in.

`policy/redaction.py` applies them. Nothing here takes longer than its text is long, whatever the text says.
"""
