"""What was signed beside the journal: which keys sign for a store, and who erased.

In: notes, texts with a signature, from a store's table or a bundle's `notes.jsonl`. Out: findings, and the keys that
somebody vouched for. Begin with `notes.py`, then `keys.py`.
"""
