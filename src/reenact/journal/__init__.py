"""The journal's format: from records to chained lines, and from lines back to state.

`chain` makes lines and digests, `lines` reads them, `fold` and `run_fold` turn them into the state of a call and of a
run, `merkle` has the trees that a seal commits to, `frontier` what a run checkpoint keeps. Pure. Begin with `chain`.
"""
