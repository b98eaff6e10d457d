"""Reading one trace (the log of one call) from a store, without the rest of its run."""

from __future__ import annotations

from reenact.contracts.artifacts import ArtifactType
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import ENDED
from reenact.errors import DamagedRecord
from reenact.journal.fold import TraceFold
from reenact.journal.lines import decode_artifact, decode_line, split_body
from reenact.record.outcomes import mark_of, outcome_of
from reenact.record.payloads import StoredPayloads
from reenact.store.base import Store, TraceRow

Commits = dict[ArtifactType, int]


def load_trace(store: Store, row: TraceRow, *, until: int | None = None) -> tuple[TraceFold, Commits]:
    """The trace as recorded (`until` a commit), and in which commit each of its artifacts stands."""
    trace = TraceFold(row.trace_id)
    commits: Commits = {}
    wanted = row.trace_id.encode()
    for number, body in enumerate(store.bodies(row.run_id, after=row.commit_n - 1), start=row.commit_n):
        if until is not None and number > until:
            break
        if wanted in body:
            apply_commit(trace, commits, body, number, where=f"run {row.run_id}, commit {number}")
        if trace.terminal:
            return trace, commits
    if trace.sequence == 0:
        raise DamagedRecord(f"run {row.run_id}: trace {row.trace_id} is not in commit {row.commit_n}")
    return trace, commits


def apply_commit(trace: TraceFold, commits: Commits, body: bytes, number: int, *, where: str) -> None:
    wanted = trace.trace_id.encode()
    for raw in split_body(body, where=where):
        if wanted not in raw:
            continue
        line = decode_line(raw, where=where)
        if line.entry is not None and line.entry.trace_id == trace.trace_id:
            trace.apply(line.entry, decode_artifact(line, where=where))
            commits[line.entry.artifact_type] = number
        elif line.attempt is not None and line.attempt.trace_id == trace.trace_id:
            trace.add_attempt(line.attempt)


def is_open(store: Store, run_id: str, trace_id: str) -> bool:
    """Whether a call may still come to its end: it has none, and its run has not ended."""
    row = store.trace(trace_id, run_id=run_id)
    if row is None or store.find_run(run_id).status in ENDED:
        return False
    return not load_trace(store, row)[0].terminal


def recorded_outcome(store: Store, run_id: str, trace_id: str, key: str) -> tuple[StructuredOutcome, object]:
    """(outcome, output) of the call under `key` that has had its effect; a mark for an output that is not here.

    The journal says which call had the key; a row that names another one is damage.
    """
    row = store.trace(trace_id, run_id=run_id)
    trace, commits = (None, {}) if row is None else load_trace(store, row)
    if trace is None or trace.call is None or trace.call.idempotency_key != key:
        raise DamagedRecord(f"run {run_id}: what is kept under an idempotency key is of another call; `reenact verify`")
    return outcome_of(StoredPayloads(store, run_id), trace, near=commits.get("tool_effect"), mark=mark_of)
