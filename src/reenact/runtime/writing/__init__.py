"""Writing a run's journal: values redacted, records staged, commits made durable under a lease.

In: artifacts, attempts, events, values. Out: commits in the store. Begin to read with `writer.py` (stages and
commits); what is staged is a `Draft` of `staging.py`, `committer.py` decides where a commit runs and which go
together, `payloads.py` puts values into envelopes, `redaction.py` takes secrets out of them first, `heartbeat.py`
keeps leases alive, `checkpoint_state.py` is what a run checkpoint keeps beside the journal.
"""
