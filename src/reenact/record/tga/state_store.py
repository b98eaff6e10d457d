"""The state store of the log's specification, as a view over a `Store`: traces and entries, without runs.

A thin view: an entry and its artifact become lines of a commit, appended under the lease of the trace's run. So they
stand in the run chain like all others, and an entry without its artifact is refused, since both commit together. A
tool_call reserves its key in that commit, and the entry that ends a trace seals it. A trace that no run of the store
has begun gets a run of its own, which bears its id; only this view goes on with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reenact.contracts.artifacts import (
    Artifact,
    ArtifactType,
    ExecutionCheckpoint,
    ExecutionState,
    LogEntry,
    Record,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
)
from reenact.contracts.records import RunRecord, Seal
from reenact.errors import (
    ConcurrentExecution,
    EvidenceError,
    LockAcquireFailed,
    RecoveryFailed,
    RunNotFound,
    StateError,
    StoreError,
    UsageError,
)
from reenact.journal import chain
from reenact.journal.chain import MerkleTree
from reenact.journal.fold import TraceFold, check_checkpoint
from reenact.journal.lines import Line, decode_artifact, decode_line, split_body
from reenact.journal.run_fold import RunFold, state_after, trace_leaf
from reenact.record.tga import keys
from reenact.store.base import Lease, NewRun, NewTrace, Store, Unit
from reenact.store.heartbeat import Heartbeat
from reenact.store.open import open_store
from reenact.store.owner import owner_name
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock, SystemClock
from reenact.values.digest import ZERO_DIGEST
from reenact.values.ids import refuse_nul
from reenact.verify.calls.foreign import ForeignLine
from reenact.version import __version__

R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class Held:
    """A run whose lease this view has, and where its journal stands."""

    lease: Lease
    fold: RunFold
    traces: set[str] = field(default_factory=set)

    @property
    def is_foreign(self) -> bool:
        """Begun here, and not by a run of Reenact's own."""
        return self.fold.record is not None and self.fold.record.kind == "trace"


class TgaStateStore:
    """The verbs of the log's specification on a store, given as one or by its URL.

    A refused append changes nothing and keeps the lock. A lock is renewed until it is released, or the process ends.
    """

    def __init__(self, store: Store | str | None = None, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._store = open_store(store, clock=self._clock) if store is None or isinstance(store, str) else store
        self._owner = owner_name(self._clock.random_bytes(8).hex())
        self._held: dict[str, Held] = {}
        self._heartbeat = Heartbeat(self._store)

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
            try:
                self._heartbeat.keep(run_id, lambda: held.lease)
            except StoreError:  # a lock that nobody renews is none
                del self._held[run_id]
                self._store.release(held.lease)
                raise
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
            self._let_go(run_id)
            self._store.release(held.lease)

    def _let_go(self, run_id: str) -> None:
        self._held.pop(run_id, None)
        self._heartbeat.drop(run_id)

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
            kind="trace",
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
        refuse_nul("the id of a trace", run_id)
        new_run = NewRun(
            kind="trace", mode="live", parent_run=None, plan_id=run_id, agent_id=run_id, started_at=started_at,
            dedupe_key=self._clock.random_bytes(32),
        )  # fmt: skip
        try:
            unit = Unit(run_id=run_id, n=0, body=chain.run_line(record), new_run=new_run)
            lease = self._append(None, fold, unit)
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
        if isinstance(made, SupervisorDecision) and (made.decision == "APPROVE") != (
            made.minted_capability is not UNSET
        ):
            raise UsageError("a decision has minted_capability where it approves, and only there")
        trace = self._trace(logged.trace_id) or TraceFold(logged.trace_id)
        trace.apply(logged, made)
        refuse_malformed(logged, made)
        held = self._held.get(self._run_of(logged.trace_id))
        if held is None:
            raise ConcurrentExecution(f"trace {logged.trace_id}: take its lock first, then append")
        unit = Unit(run_id=held.fold.run_id, n=0, body=entry_line(logged, made))
        if logged.sequence_number == 1:
            unit.traces = [NewTrace(trace.trace_id, trace.step_index, "call")]
        if held.is_foreign:
            unit.reservations = keys.reserved(self._store, trace, made)
            unit.completions = keys.completed(self._store, trace, made)
            unit.seal = self._seal(held.fold, trace) if trace.terminal else None
            unit.status = None if unit.seal is None else unit.seal.status
        self._commit(held, unit)
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
        self._commit(held, Unit(run_id=held.fold.run_id, n=0, body=chain.checkpoint_line(record)))

    def _seal(self, fold: RunFold, trace: TraceFold) -> Seal:
        """With the entry that ends its one trace a run ends."""
        root = MerkleTree()
        root.append(trace_leaf(trace))
        return Seal(
            attempts_root=MerkleTree().root(),
            commits=fold.commits + 1,
            plan_hash=None,
            prev_store_seal=ZERO_DIGEST,
            root=root.root(),
            run_head="",
            run_id=fold.run_id,
            sealed_at=self._clock.timestamp(),
            status="completed" if trace.state == "COMPLETED" else "failed",
            steps_planned=1,
            traces=1,
        )

    def _commit(self, held: Held, unit: Unit) -> None:
        try:
            held.lease = self._append(held.lease, held.fold, unit)
        except ConcurrentExecution:
            self._let_go(held.fold.run_id)
            raise

    def _append(self, lease: Lease | None, fold: RunFold, unit: Unit) -> Lease:
        unit.n = fold.commits + 1
        unit.body = chain.commit_line(unit.n, fold.head, fold.run_id) + unit.body
        taken = self._store.append(unit, lease, owner=self._owner)
        fold.commits, fold.head = unit.n, taken.head
        return taken.lease

    # -- recovery --------------------------------------------------------------------------------------------------

    async def load_effect(self, server: str, tool: str, key: str) -> ToolEffect | None:
        """What came of the call under this key; None while there was none, or nobody knows yet."""
        record = self._store.key_record(server, tool, keys.key_of(self._store.key_secret, server, tool, key))
        trace = None if record is None or record.state != "completed" else self._trace(record.trace_id)
        return None if trace is None else trace.effect

    async def recover_trace(self, trace_id: str, dispatch: Dispatch) -> ExecutionState:
        """Go on with a trace whose executor died: what was sent without an effect is sent again, as it stands.

        `dispatch` is given the same ToolCall, with its id and key, and gives the ToolEffect, whose digest is made here.
        A trace that has ended, or was not sent yet, is left as it is. STATE_RECOVERY_FAILED where its log is damaged.
        """
        try:
            await self.acquire_trace_lock(trace_id)
            await self.load_latest_checkpoint(trace_id)
            trace = self._trace(trace_id)
        except LockAcquireFailed:
            raise
        except (StateError, EvidenceError) as error:
            await self.release_trace_lock(trace_id)
            raise RecoveryFailed(f"trace {trace_id} cannot be recovered: {error}") from error
        try:
            if trace is None:
                raise RunNotFound(f"trace {trace_id} has no entry")
            if trace.state != "EXECUTING" or trace.call is None:
                return state_of(trace)
            effect = as_artifact(await dispatch(trace.call), "tool_effect")
            assert isinstance(effect, ToolEffect)
            return await self.append_log_entry(*next_entry(trace, effect))
        finally:
            await self.release_trace_lock(trace_id)


Dispatch = Callable[[ToolCall], Awaitable[ToolEffect | Mapping[str, object]]]


def next_entry(trace: TraceFold, effect: ToolEffect) -> tuple[LogEntry, ToolEffect]:
    """The entry that records what came of a trace's call, and the effect with its digest."""
    assert trace.call is not None
    logged = chain.log(
        replace(effect, digest=UNSET),
        "tool_effect",
        effect.tool_effect_id,
        sequence=trace.sequence + 1,
        prev=trace.head,
        from_state=trace.state,
        to_state=state_after(effect),
        tool_call_id=trace.call.tool_call_id,
        idempotency_key=trace.call.idempotency_key,
    )
    assert isinstance(logged.artifact, ToolEffect)
    return logged.entry, logged.artifact


def refuse_malformed(entry: LogEntry, artifact: Artifact) -> None:
    """What the log's schemas do not allow is not written: it could never be verified."""
    try:
        msgspec.convert(msgspec.to_builtins({"artifact": artifact, "entry": entry, "kind": "entry"}), ForeignLine)
    except msgspec.ValidationError as error:
        raise UsageError(f"this is not what the log's schemas allow: {error}") from None


def entry_line(entry: LogEntry, artifact: Artifact) -> bytes:
    return canonicalize({"artifact": artifact, "entry": entry, "kind": "entry"}) + b"\n"


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
