"""The log's own specification, for runtimes that are not Reenact.

In come entries with their artifacts, out come states, effects and checkpoints. A trace that comes from elsewhere gets a
run of kind `trace` that bears its id; it is sealed when the trace ends, and verified by the log's specification alone.
Begin with `state_store`, which has the verbs; `keys` is what a call may be made under once.
"""
