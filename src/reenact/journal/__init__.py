"""The journal's format: from records to chained lines, and from lines back to state.

`chain` makes lines and digests, `lines` reads them, `fold` and `run_fold` turn them into the state of a call and of a
run, `machine` is the Moore table that they obey, `frontier` what a run checkpoint keeps. Pure. In: records, or lines.
Out: lines, or state. Begin with `chain`, which also has the Merkle trees that a seal commits to.
"""
