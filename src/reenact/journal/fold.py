"""The state of one call, folded from its entries. The same entries give the same state, wherever they come from.

`TraceFold` makes the contract's checks in the contract's order; what does not fit is a `StateError` with a stable code,
and nothing is applied. `run_fold` does the same for a run.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from reenact.contracts.artifacts import (
    ActionRequest,
    Artifact,
    ExecutionCheckpoint,
    LogEntry,
    State,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
)
from reenact.contracts.records import Attempt
from reenact.errors import ChecksumMismatch, InvalidTransition, MissingToolCallId, SequenceGap
from reenact.journal.chain import ARTIFACT_ID_FIELD, artifact_digest, encode, entry_digest, sha
from reenact.journal.machine import ALLOWED, TERMINAL
from reenact.values.digest import ZERO_DIGEST


class TraceFold:
    """The life of one tool call, as far as it is recorded."""

    __slots__ = (
        "attempts",
        "attempts_head",
        "call",
        "cost_exact",
        "decision",
        "effect",
        "head",
        "made",
        "request",
        "sequence",
        "state",
        "step_id",
        "step_index",
        "trace_id",
    )

    def __init__(self, trace_id: str) -> None:
        self.trace_id = trace_id
        self.step_id = "None"
        self.step_index = 0
        self.state: State = "PENDING"
        self.sequence = 0
        self.head = ZERO_DIGEST
        self.request: ActionRequest | None = None
        self.decision: SupervisorDecision | None = None
        self.call: ToolCall | None = None
        self.effect: ToolEffect | None = None
        self.attempts: list[Attempt] = []
        self.attempts_head = ZERO_DIGEST
        self.made = 0
        """How many dispatches have a recorded result: the number of the next one."""
        self.cost_exact = 0
        """What the trace has been charged so far, in picodollars."""

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def plan_id(self) -> str:
        return "" if self.request is None else self.request.plan_id

    @property
    def is_duplicate(self) -> bool:
        """Left out because an equal call of the same turn had succeeded: no failure."""
        decided = self.decision
        if decided is None or isinstance(decided.meta, UnsetType):
            return False
        return self.state == "DENIED" and decided.meta.get("code") == "DENIED_DUPLICATE"

    @property
    def decided_by_key(self) -> bool:
        """Answered from the record of an earlier call, or refused for it: nothing is sent."""
        decided = self.decision
        return decided is not None and isinstance(decided.meta, dict) and decided.meta.get("gate") == "key"

    def meta(self, key: str) -> str | int | bool | None:
        """A value of the request's meta."""
        if self.request is None or isinstance(self.request.meta, UnsetType):
            return None
        return self.request.meta.get(key)

    def apply(self, entry: LogEntry, artifact: Artifact, *, recompute: bool = True) -> None:
        """Append one entry that was read. `recompute=False` is for one whose digests were computed a moment ago."""
        check_entry(self, entry)
        if recompute:
            check_digests(entry, artifact)
        self.keep(entry, artifact)

    def keep(self, entry: LogEntry, artifact: Artifact) -> None:
        """Go on with an entry in its place, whose artifact names the one before it by id and digest."""
        if isinstance(artifact, ActionRequest):
            self.request = artifact
            meta = {} if isinstance(artifact.meta, UnsetType) else artifact.meta
            self.step_id, index = str(meta.get("step_id")), meta.get("step_index")
            self.step_index = index if isinstance(index, int) else 0
        elif isinstance(artifact, SupervisorDecision):
            request, named = self.request, (artifact.action_request_id, artifact.action_request_digest)
            if request is not None and named != (request.action_request_id, request.digest):
                raise wrong_link(entry, named, request.action_request_id, request.digest)
            self.decision = artifact
        elif isinstance(artifact, ToolCall):
            decision, named = self.decision, (artifact.supervisor_decision_id, artifact.supervisor_decision_digest)
            if decision is not None and named != (decision.supervisor_decision_id, decision.digest):
                raise wrong_link(entry, named, decision.supervisor_decision_id, decision.digest)
            self.call = artifact
            self.attempts_head = entry.artifact_digest
        else:
            call, named = self.call, (artifact.tool_call_id, artifact.tool_call_digest)
            if call is not None and named != (call.tool_call_id, call.digest):
                raise wrong_link(entry, named, call.tool_call_id, call.digest)
            self.effect = artifact
        self.state = entry.to_state
        self.sequence = entry.sequence_number
        assert not isinstance(entry.entry_digest, UnsetType)
        self.head = entry.entry_digest

    def add_attempt(self, attempt: Attempt, *, recompute: bool = True) -> None:
        if self.state != "EXECUTING":
            raise InvalidTransition(
                f"{self.place(attempt)}: attempts are recorded in EXECUTING, the trace is {self.state}"
            )
        if attempt.ordinal != len(self.attempts):
            raise SequenceGap(f"{self.place(attempt)}: expected ordinal {len(self.attempts)}")
        if attempt.prev != self.attempts_head:
            raise ChecksumMismatch(f"{self.place(attempt)}: prev is {attempt.prev}, expected {self.attempts_head}")
        if recompute and sha(encode(without_digest(attempt))) != attempt.digest:
            raise ChecksumMismatch(f"{self.place(attempt)}: its digest does not recompute")
        self.attempts.append(attempt)
        self.attempts_head = str(attempt.digest)
        self.made += attempt.kind == "attempt"
        self.cost_exact += int(attempt.cost_exact)

    def place(self, attempt: Attempt) -> str:
        return f"trace {self.trace_id}, attempt record {attempt.ordinal}"


def without_digest(attempt: Attempt) -> Attempt:
    return replace(attempt, digest=UNSET)


def check_entry(trace: TraceFold, entry: LogEntry) -> None:
    """Sequence, previous digest, transition, tool_call_id: in this order."""
    sequence, before, after, made_by = entry.sequence_number, entry.from_state, entry.to_state, entry.artifact_type
    if sequence != trace.sequence + 1:
        raise SequenceGap(f"{place(entry)}: expected sequence number {trace.sequence + 1}")
    if entry.prev_entry_digest != trace.head:
        raise ChecksumMismatch(f"{place(entry)}: prev_entry_digest is {entry.prev_entry_digest}, expected {trace.head}")
    if before != trace.state:
        raise InvalidTransition(f"{place(entry)}: from_state is {before}, the trace is {trace.state}")
    if (sequence == 1, before, after, made_by) not in ALLOWED:
        raise InvalidTransition(f"{place(entry)}: {before} → {after} by {made_by}")
    if made_by == "tool_call" and entry.tool_call_id is None:
        raise MissingToolCallId(f"{place(entry)}: a tool_call entry names its tool_call_id")


def place(entry: LogEntry) -> str:
    return f"trace {entry.trace_id}, entry {entry.sequence_number}"


def wrong_link(entry: LogEntry, named: tuple[str, str], artifact_id: str, digest: object) -> ChecksumMismatch:
    return ChecksumMismatch(
        f"{place(entry)}: the {entry.artifact_type} names {named[0]} with digest {named[1]}, "
        f"recorded is {artifact_id} with {digest}"
    )


def check_digests(entry: LogEntry, artifact: Artifact) -> None:
    if entry_digest(entry) != entry.entry_digest:
        raise ChecksumMismatch(f"{place(entry)}: entry_digest does not recompute")
    if artifact_digest(artifact) != artifact.digest or artifact.digest != entry.artifact_digest:
        raise ChecksumMismatch(f"{place(entry)}: the {entry.artifact_type}'s digest does not recompute")
    if artifact.trace_id != entry.trace_id or artifact.ts != entry.ts:
        raise ChecksumMismatch(f"{place(entry)}: the {entry.artifact_type} is of another trace or time")
    if getattr(artifact, ARTIFACT_ID_FIELD[entry.artifact_type]) != entry.artifact_id:
        raise ChecksumMismatch(f"{place(entry)}: artifact_id is not the {entry.artifact_type}'s")


def check_checkpoint(trace: TraceFold, checkpoint: ExecutionCheckpoint) -> None:
    """A checkpoint is used only when inner, outer and the replayed state agree."""
    inner = checkpoint.checkpoint_state
    if sha(encode(inner)) != checkpoint.checkpoint_digest:
        raise ChecksumMismatch(f"trace {trace.trace_id}: checkpoint_digest does not recompute")
    if (checkpoint.trace_id, checkpoint.checkpoint_sequence_number) != (inner.trace_id, inner.last_sequence_number):
        raise ChecksumMismatch(f"trace {trace.trace_id}: the checkpoint's outside and inside differ")
    if (inner.current_state, inner.last_sequence_number, inner.last_entry_digest) != (
        trace.state,
        trace.sequence,
        trace.head,
    ):
        raise ChecksumMismatch(f"trace {trace.trace_id}: the checkpoint is not the state that the log gives")
