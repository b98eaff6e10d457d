"""The state of a run, folded from its commits. Memory grows with what is open, not with what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from reenact.contracts.artifacts import Artifact, LogEntry, State, SupervisorDecision, ToolCall, ToolEffect
from reenact.contracts.records import Attempt, Event, RunCheckpoint, RunRecord, Seal, Vote
from reenact.errors import ChecksumMismatch, DamagedRecord, InvalidTransition, SequenceGap
from reenact.journal.chain import ARTIFACT_ID_FIELD, ARTIFACT_TYPE, MerkleTree, digested_attempt, encode, log, sha
from reenact.journal.fold import TraceFold, check_checkpoint
from reenact.journal.lines import Line, commit_head, decode_artifact, decode_line, split_body
from reenact.journal.machine import ALLOWED, TERMINAL
from reenact.values.digest import ZERO_DIGEST

EMPTY_DUPLICATES = sha(b"[]")


def trace_leaf(trace: TraceFold) -> bytes:
    return encode(
        {"head": trace.head, "state": trace.state, "step_index": trace.step_index, "trace_id": trace.trace_id}
    )


def attempt_leaf(attempt: Attempt) -> bytes:
    return encode({"digest": attempt.digest, "ordinal": attempt.ordinal, "trace_id": attempt.trace_id})


def state_after(artifact: Artifact) -> State:
    """The state that an artifact leads to. Only what says so approves a call, or completes one."""
    if isinstance(artifact, SupervisorDecision):
        return "AUTHORIZED" if artifact.decision == "APPROVE" else "DENIED"
    if isinstance(artifact, ToolEffect):
        return "COMPLETED" if artifact.outcome.status == "SUCCESS" else "FAILED"
    return "EXECUTING" if isinstance(artifact, ToolCall) else "PENDING"


class RunFold:
    """What a run's lines say. Applying a line either fits, or raises and changes nothing that matters."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.record: RunRecord | None = None
        self.commits = 0
        self.head = ZERO_DIGEST
        self.open: dict[str, TraceFold] = {}
        self.moments = 0
        """Decisions, attempt records and effects by now: each changes what is left of a budget."""
        self.requested = 0
        self.done = 0
        self.approved_writes = 0
        self.approved_reads: dict[str, int] = {}
        """By `id@version`; all that was approved to do more than read counts in one."""
        self.not_completed: list[int] = []
        self.on_finish: Callable[[TraceFold], None] | None = None
        self.settled_exact = 0
        self.tree = MerkleTree()
        self.attempts_tree = MerkleTree()
        self.waiting_leaves: dict[int, bytes] = {}
        self.seal: Seal | None = None
        self.turns = 0
        self.turn = 0
        """The current turn of a session, from 0; a session's first turn event opens turn 0."""
        self.events: list[Event] = []
        self.freed: dict[str, int] = {}
        """Open traces in doubt that a person said to send again, and how many attempt records they had by then."""
        self.went_on: dict[str, tuple[int, Event]] = {}
        """By trace, the last word on a caller that went on without its answer, and its commit."""
        self.pinned: list[tuple[int, str]] = []
        """In which commits a session pinned skills and prices, and the payloads that hold them."""
        self.votes: dict[str, Vote] = {}
        self.parked: dict[str, int] = {}
        """Open traces that left a checkpoint, and at which entry."""
        self.duplicates = EMPTY_DUPLICATES
        self.last_checkpoint: RunCheckpoint | None = None

    # -- reading ---------------------------------------------------------------------------------------------------

    def apply_bodies(self, bodies: Iterable[bytes]) -> RunFold:
        for body in bodies:
            self.apply_body(body)
        return self

    def apply_body(self, body: bytes) -> list[Line]:
        """One commit, checked against the chain so far; returns its lines."""
        where = f"run {self.run_id}, commit {self.commits + 1}"
        raws = list(split_body(body, where=where))
        head = commit_head(decode_line(raws[0], where=f"{where}, line 1"), where=where)
        if head.run_id != self.run_id:
            raise ChecksumMismatch(f"{where}: belongs to run {head.run_id}")
        if head.n != self.commits + 1:
            raise SequenceGap(f"{where}: found commit {head.n}")
        if head.prev != self.head:
            raise ChecksumMismatch(f"{where}: prev is {head.prev}, the commit before it has {self.head}")
        lines = []
        offset = len(raws[0]) + 1
        for number, raw in enumerate(raws[1:], start=2):
            line = decode_line(raw, where=f"{where}, line {number}")
            self.apply_line(line, where=f"{where}, line {number}", body_before=body[:offset])
            offset += len(raw) + 1
            lines.append(line)
        self.commits = head.n
        self.head = sha(body)
        return lines

    def apply_line(self, line: Line, *, where: str, body_before: bytes) -> None:
        if line.kind == "entry" and line.entry is not None:
            self.apply_entry(line.entry, decode_artifact(line, where=where))
        elif line.kind == "attempt" and line.attempt is not None:
            self.apply_attempt(line.attempt)
        elif line.kind == "run" and line.run is not None:
            self.apply_run(line.run, where=where)
        elif line.kind == "event" and line.event is not None:
            self.apply_event(line.event)
        elif line.kind == "vote" and line.vote is not None:
            self.votes[line.vote.trace_id] = line.vote
        elif line.kind == "checkpoint" and line.checkpoint is not None:
            check_checkpoint(self.trace(line.checkpoint.trace_id), line.checkpoint)
            self.parked[line.checkpoint.trace_id] = line.checkpoint.checkpoint_sequence_number
        elif line.kind == "run_checkpoint" and line.run_checkpoint is not None:
            self.apply_run_checkpoint(line.run_checkpoint, sha(body_before))
        elif line.kind == "seal" and line.seal is not None:
            self.apply_seal(line.seal, sha(body_before))
        else:
            raise DamagedRecord(f"{where}: a {line.kind} line without its {line.kind}")

    # -- one record at a time, for readers and the writer alike ----------------------------------------------------

    def trace(self, trace_id: str) -> TraceFold:
        """The open trace of this id; a new one when there is none."""
        trace = self.open.get(trace_id)
        return trace if trace is not None else TraceFold(trace_id)

    def apply_run(self, record: RunRecord, *, where: str = "") -> None:
        if self.record is not None or record.run_id != self.run_id:
            raise DamagedRecord(f"{where}: a second run record, or one of another run")
        self.record = record

    def log(self, artifact: Artifact) -> tuple[TraceFold, bytes]:
        """Record an artifact as the next entry of its trace. The trace, and the line that holds both."""
        trace = self.open.get(artifact.trace_id) or TraceFold(artifact.trace_id)
        kind, before, after = ARTIFACT_TYPE[type(artifact)], trace.state, state_after(artifact)
        if (trace.sequence == 0, before, after, kind) not in ALLOWED:
            raise InvalidTransition(f"trace {trace.trace_id}: {before} → {after} by {kind}")
        call = artifact if isinstance(artifact, ToolCall) else trace.call
        logged = log(
            artifact,
            kind,
            getattr(artifact, ARTIFACT_ID_FIELD[kind]),
            sequence=trace.sequence + 1,
            prev=trace.head,
            from_state=before,
            to_state=after,
            tool_call_id=None if call is None else call.tool_call_id,
            idempotency_key=None if call is None else call.idempotency_key,
        )
        trace.keep(logged.entry, artifact)
        self._count(trace)
        return trace, logged.line

    def apply_entry(self, entry: LogEntry, artifact: Artifact, *, recompute: bool = True) -> TraceFold:
        trace = self.trace(entry.trace_id)
        trace.apply(entry, artifact, recompute=recompute)
        self._count(trace)
        return trace

    def _count(self, trace: TraceFold) -> None:
        """What the run keeps of a trace that has one entry more."""
        if trace.sequence == 1:
            self.open[trace.trace_id] = trace
            self.requested += 1
            return
        if trace.state == "EXECUTING":
            return
        self.moments += 1
        if trace.state == "AUTHORIZED":
            assert trace.request is not None
            if trace.decided_by_key:
                return  # answered: it reaches nobody
            if trace.request.risk_level != "READ":
                self.approved_writes += 1
                return
            meta = {} if isinstance(trace.request.meta, UnsetType) else trace.request.meta
            reference = f"{meta.get('skill_id')}@{meta.get('skill_version')}"
            self.approved_reads[reference] = self.approved_reads.get(reference, 0) + 1
        elif trace.state in TERMINAL:
            self._finish(trace)

    def _finish(self, trace: TraceFold) -> None:
        del self.open[trace.trace_id]
        self.parked.pop(trace.trace_id, None)
        self.freed.pop(trace.trace_id, None)
        self.done += 1
        self.settled_exact += trace.cost_exact
        if trace.state != "COMPLETED" and not trace.is_duplicate:
            self.not_completed.append(trace.step_index)
        if self.on_finish is not None:
            self.on_finish(trace)
        self.waiting_leaves[trace.step_index] = trace_leaf(trace)
        # Leaves enter the tree in step order; parallel calls may end in any order.
        while self.tree.size in self.waiting_leaves:
            self.tree.append(self.waiting_leaves.pop(self.tree.size))

    def apply_attempt(self, attempt: Attempt, *, recompute: bool = True) -> TraceFold:
        trace = self.trace(attempt.trace_id)
        trace.add_attempt(attempt, recompute=recompute)
        self.moments += 1
        self.attempts_tree.append(attempt_leaf(attempt))
        return trace

    def log_attempt(self, attempt: Attempt) -> tuple[TraceFold, bytes, bytes]:
        """Digest an attempt record and add it to its trace, which is given, with the line and the leaf.

        The leaf enters the tree of attempts with the commit: only there it is known in which order the lines stand.
        """
        trace = self.open.get(attempt.trace_id) or TraceFold(attempt.trace_id)
        digested, line = digested_attempt(attempt)
        trace.add_attempt(digested, recompute=False)
        self.moments += 1
        return trace, line, attempt_leaf(digested)

    def apply_event(self, event: Event) -> None:
        if event.type == "turn":
            self.turn, self.turns = self.turns, self.turns + 1
        elif event.type == "resolve" and event.reason is not None and event.trace_id in self.open:
            self.freed[event.trace_id] = len(self.open[event.trace_id].attempts)
        elif event.type == "went_on" and event.trace_id is not None:
            self.went_on[event.trace_id] = (self.commits + 1, event)
        elif event.type == "pinned" and event.data is not None:
            self.pinned.append((self.commits + 1, event.data))
        self.events.append(event)

    def apply_run_checkpoint(self, checkpoint: RunCheckpoint, run_head: str) -> None:
        where = f"run {self.run_id}, run checkpoint after commit {checkpoint.commits}"
        if sha(encode(replace(checkpoint, digest=UNSET))) != checkpoint.digest:
            raise ChecksumMismatch(f"{where}: its digest does not recompute")
        if checkpoint.run_head != run_head or checkpoint.root != self.terminal_root():
            raise ChecksumMismatch(f"{where}: it is not the state that the journal gives")
        self.last_checkpoint = checkpoint
        self.duplicates = checkpoint.duplicates

    def apply_seal(self, seal: Seal, run_head: str) -> None:
        where = f"run {self.run_id}, seal"
        if sha(encode(replace(seal, seal_digest=UNSET))) != seal.seal_digest:
            raise ChecksumMismatch(f"{where}: its digest does not recompute")
        expected = (run_head, self.full_root(), self.attempts_tree.root(), self.requested)
        if (seal.run_head, seal.root, seal.attempts_root, seal.traces) != expected:
            raise ChecksumMismatch(f"{where}: it is not the state that the journal gives")
        self.seal = seal

    # -- what the seal and the checkpoints commit to ----------------------------------------------------------------

    def terminal_root(self) -> str:
        return self._root(self.waiting_leaves)

    def full_root(self) -> str:
        """Over every trace, also those that a cancelled run left open."""
        leaves = dict(self.waiting_leaves)
        leaves.update({trace.step_index: trace_leaf(trace) for trace in self.open.values()})
        return self._root(leaves)

    def _root(self, leaves: dict[int, bytes]) -> str:
        tree = MerkleTree(self.tree.size, list(self.tree.frontier))
        for index in sorted(leaves):
            tree.append(leaves[index])
        return tree.root()

    @property
    def spent_exact(self) -> int:
        """Charged so far: settled traces, and what open ones have been charged."""
        return self.settled_exact + sum(trace.cost_exact for trace in self.open.values())
