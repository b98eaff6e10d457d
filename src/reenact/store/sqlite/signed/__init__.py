"""What keys of a store sign and vouch for in its file.

In come rows that are about to be written, or that are read again; out come their signatures, MACs and the keys on
record. Begin with `notes`, the signed texts; `key_history` is whose they are, `heads` what was there before them.
"""
