"""The state store of the log's specification, as a view over a `Store`: traces and entries, without runs.

A thin view: an entry and its artifact become lines of a commit, appended under the lease of the trace's run. So they
stand in the run chain like all others, and an entry without its artifact is refused, since both commit together.
A trace that no run of the store has begun gets a run of its own, which bears its id; only this view goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from reenact.contracts.artifacts import (
    Artifact,
    ArtifactType,
    ExecutionCheckpoint,
    ExecutionState,
    LogEntry,
    Record,
)
from reenact.contracts.records import RunRecord
from reenact.errors import ConcurrentExecution, RunNotFound, UsageError
from reenact.journal import chain
from reenact.journal.fold import TraceFold, check_checkpoint
from reenact.journal.lines import Line, decode_artifact, decode_line, split_body
from reenact.journal.run_fold import RunFold
from reenact.store.base import Lease, NewRun, NewTrace, Store, Unit
from reenact.store.owner import owner_name
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock, SystemClock
from reenact.version import __version__

R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class Held:
    """A run whose lease this view has, and where its journal stands."""

    lease: Lease
    fold: RunFold
    traces: set[str] = field(default_factory=set)


class TgaStateStore:
    """The verbs of the log's specification on a `Store`. A refused append changes nothing and keeps the lock."""

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._owner = owner_name(self._clock.random_bytes(8).hex())
        self._held: dict[str, Held] = {}

    # -- reading ---------------------------------------------------------------------------------------------------

    async def load_state(self, trace_id: str) -> ExecutionState | None:
        """The state that the trace's entries fold to, each of them verified; None for a trace that is not there."""
        trace = self._trace(trace_id)
        return None if trace is None else state_of(trace)

    async def list_log_entries(self, trace_id: str, after_seq: int = 0) -> list[LogEntry]:
        """The trace's entries behind `after_seq`, in order."""
        entries = [line.entry for line, _ in self._lines(trace_id) if line.entry is not None]
        return [entry for entry in entries if entry.sequence_number > after_seq]

    async def load_latest_checkpoint(self, trace_id: str) -> ExecutionCheckpoint | None:
        """The trace's last checkpoint, held against the entries before it; STATE_CHECKSUM_MISMATCH where it lies."""
        found = None
        trace = TraceFold(trace_id)
        for line, where in self._lines(trace_id):
            if line.entry is not None:
                trace.apply(line.entry, decode_artifact(line, where=where))
            elif line.checkpoint is not None:
                check_checkpoint(trace, line.checkpoint)
                found = line.checkpoint
        return found

    def _trace(self, trace_id: str) -> TraceFold | None:
        trace = TraceFold(trace_id)
        for line, where in self._lines(trace_id):
            if line.entry is not None:
                trace.apply(line.entry, decode_artifact(line, where=where))
        return trace if trace.sequence else None

    def _lines(self, trace_id: str) -> Iterator[tuple[Line, str]]:
        """The trace's entry and checkpoint lines, from the commit in which it began."""
        row = self._store.trace(trace_id)
        if row is None:
            return
        wanted = trace_id.encode()
        for n, body in enumerate(self._store.bodies(row.run_id, after=row.commit_n - 1), start=row.commit_n):
            where = f"run {row.run_id}, commit {n}"
            for raw in split_body(body, where=where) if wanted in body else ():
                line = decode_line(raw, where=where) if wanted in raw else None
                if line is not None and trace_id in (
                    line.entry.trace_id if line.entry is not None else None,
                    line.checkpoint.trace_id if line.checkpoint is not None else None,
                ):
                    yield line, where

    # -- locks -----------------------------------------------------------------------------------------------------

    async def acquire_trace_lock(self, trace_id: str) -> Lease:
        """The lease of the trace's run; STATE_LOCK_ACQUIRE_FAILED while somebody else holds it."""
        run_id = self._run_of(trace_id)
        held = self._held.get(run_id)
        if held is None:
            held = self._held[run_id] = self._take(run_id)
        held.traces.add(trace_id)
        return held.lease

    async def release_trace_lock(self, trace_id: str) -> None:
        """Give the lock back. One that was lost, or never had, is left alone."""
        run_id = self._run_of(trace_id)
        held = self._held.get(run_id)
        if held is None:
            return
        held.traces.discard(trace_id)
        if not held.traces:
            del self._held[run_id]
            self._store.release(held.lease)

    def _run_of(self, trace_id: str) -> str:
        row = self._store.trace(trace_id)
        return trace_id if row is None else row.run_id

    def _take(self, run_id: str) -> Held:
        try:
            lease = self._store.acquire(run_id, self._owner)
        except RunNotFound:
            return self._begin(run_id)
        try:
            return Held(lease, RunFold(run_id).apply_bodies(self._store.bodies(run_id)))
        except BaseException:
            self._store.release(lease)
            raise

    def _begin(self, run_id: str) -> Held:
        """A run for a trace that comes from elsewhere: it is there from the moment its lock is held."""
        fold, started_at = RunFold(run_id), self._clock.timestamp()
        record = RunRecord(
            agent_id=run_id,
            capability_key=self._store.signing_key.kid,
            kind="session",
            mode="live",
            parent_run=None,
            plan=None,
            plan_hash=None,
            plan_id=run_id,
            reenact_version=__version__,
            run_id=run_id,
            started_at=started_at,
            steps_planned=None,
        )
        fold.apply_run(record)
        new_run = NewRun(
            kind="session", mode="live", parent_run=None, plan_id=run_id, agent_id=run_id, started_at=started_at,
            dedupe_key=self._clock.random_bytes(32),
        )  # fmt: skip
        try:
            lease = self._append(None, fold, chain.run_line(record), new_run=new_run)
        except UsageError:
            # Somebody began it a moment ago: then the lock is theirs.
            lease = self._store.acquire(run_id, self._owner)
            fold = RunFold(run_id).apply_bodies(self._store.bodies(run_id))
        return Held(lease, fold)

    # -- writing ---------------------------------------------------------------------------------------------------

    async def append_log_entry(
        self, entry: LogEntry | Mapping[str, object], artifact: Artifact | Mapping[str, object]
    ) -> ExecutionState:
        """Append one entry with its artifact, durable when this returns; the state after it.

        The checks, in this order: sequence, previous digest, from_state and transition, tool_call_id, digests, fence.
        """
        if artifact is None:
            raise UsageError("an entry is appended together with its artifact; give both")
        logged = as_record(entry, LogEntry)
        made = as_artifact(artifact, logged.artifact_type)
        trace = self._trace(logged.trace_id) or TraceFold(logged.trace_id)
        trace.apply(logged, made)
        held = self._held.get(self._run_of(logged.trace_id))
        if held is None:
            raise ConcurrentExecution(f"trace {logged.trace_id}: take its lock first, then append")
        line = canonicalize({"artifact": made, "entry": logged, "kind": "entry"}) + b"\n"
        new = [NewTrace(trace.trace_id, trace.step_index, "call")] if logged.sequence_number == 1 else []
        self._commit(held, line, traces=new)
        held.fold.apply_entry(logged, made, recompute=False)
        return state_of(trace)

    async def write_checkpoint(self, checkpoint: ExecutionCheckpoint | Mapping[str, object]) -> None:
        """Append a checkpoint of a trace that is not yet terminal; it must be the state that the log gives."""
        record = as_record(checkpoint, ExecutionCheckpoint)
        trace = self._trace(record.trace_id) or TraceFold(record.trace_id)
        check_checkpoint(trace, record)
        held = self._held.get(self._run_of(record.trace_id))
        if held is None:
            raise ConcurrentExecution(f"trace {record.trace_id}: take its lock first, then write its checkpoint")
        self._commit(held, chain.checkpoint_line(record))

    def _commit(self, held: Held, line: bytes, traces: list[NewTrace] | None = None) -> None:
        try:
            held.lease = self._append(held.lease, held.fold, line, traces=traces)
        except ConcurrentExecution:
            self._held.pop(held.fold.run_id, None)
            raise

    def _append(
        self,
        lease: Lease | None,
        fold: RunFold,
        line: bytes,
        *,
        new_run: NewRun | None = None,
        traces: list[NewTrace] | None = None,
    ) -> Lease:
        body = chain.commit_line(fold.commits + 1, fold.head, fold.run_id) + line
        unit = Unit(
            run_id=fold.run_id,
            n=fold.commits + 1,
            body=body,
            traces=traces or [],
            new_run=new_run,
        )
        taken = self._store.append(unit, lease, owner=self._owner)
        fold.commits, fold.head = unit.n, taken.head
        return taken.lease


def state_of(trace: TraceFold) -> ExecutionState:
    return chain.state_of(trace.trace_id, trace.plan_id, trace.state, trace.sequence, trace.head)


def as_record(value: R | Mapping[str, object], kind: type[R]) -> R:
    if isinstance(value, kind):
        return value
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"this is not a {kind.__name__}: {error}") from None


def as_artifact(value: Artifact | Mapping[str, object], artifact_type: ArtifactType) -> Artifact:
    kind = chain.ARTIFACT_TYPES[artifact_type]
    if isinstance(value, Record) and not isinstance(value, kind):
        raise UsageError(f"the entry is of a {artifact_type}, the artifact is a {type(value).__name__}")
    return as_record(value, kind)
