"""Who signs for a store, and what was signed beside the journal.

In: what `REENACT_SIGNING_KEY` and the file beside a store say. Out: keys that sign, and notes that they signed. Begin
with `notes.py`: a text and its signature.
"""
