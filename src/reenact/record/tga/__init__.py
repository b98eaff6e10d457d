"""The log's own specification, for runtimes that are not Reenact: `state_store` has its verbs, on any store.

A trace that comes from elsewhere gets a run of kind `trace` that bears its id. It is sealed when the trace ends, and
verified like any other, by the log's specification alone.
"""
