"""Journal records around the log: run, attempt, event, vote, seal, run checkpoint, erasure.

All keys are always present, null when unknown. Fields stand in canonical key order.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from reenact.contracts.artifacts import Record
from reenact.contracts.facts import Facts
from reenact.values.threads import build

RunKind = Literal["plan", "session", "trace"]
"""`trace`: one that another runtime writes through the log's own interface."""
RunMode = Literal["live", "full_replay", "mock_replay", "dry_run", "fork"]
RunStatus = Literal["pending", "running", "waiting", "held", "completed", "failed", "cancelled"]
UNFINISHED: Final[tuple[RunStatus, ...]] = ("pending", "running", "waiting", "held")
ENDED: Final[tuple[RunStatus, ...]] = ("completed", "failed", "cancelled")
"""Each with a seal: nothing is appended to such a run any more."""
AttemptKind = Literal["attempt", "lost", "redispatch", "served"]
EventType = Literal[
    "turn", "verify", "now", "finish", "resolve", "cancel", "synthesized", "late", "accept_changed", "went_on", "pinned"
]


class CommitLine(Record, frozen=True, kw_only=True):
    """The head of every commit of a run; the only line that is flat."""

    kind: Literal["commit"] = "commit"
    n: int
    prev: str
    run_id: str


class RunRecord(Record, frozen=True, kw_only=True):
    agent_id: str
    capability_key: str
    key_run: str | UnsetType = UNSET
    """The run whose id stands in the keys of its steps; absent in runs whose keys are made of the plan's salt alone."""
    kind: RunKind
    mode: RunMode
    parent_run: str | None
    plan: str | None
    plan_hash: str | None
    plan_id: str
    reenact_version: str
    run_id: str
    schema: Literal["reenact.run.v1"] = "reenact.run.v1"
    started_at: str
    steps_planned: int | None


class SideEffect(Record, frozen=True, kw_only=True):
    attempt: int
    target: str
    type: str


class Attempt(Record, frozen=True, kw_only=True):
    asked_after: int | UnsetType = UNSET
    """Of a retry: how many moments (`RunFold.moments`) the run had had when money for it was asked for."""
    attempt: int
    backoff_ms: int | None
    code: str | None
    cost_exact: str
    digest: str | UnsetType = UNSET
    ended_at: str | None
    facts: Facts | None
    fence: int
    kind: AttemptKind
    made_after: int | UnsetType = UNSET
    """How many it had had when this record was made; absent where its trace's effect was made with it."""
    ordinal: int
    prev: str
    request_id: str | None
    response: str | None
    retry_after_ms: int | None
    schema: Literal["reenact.attempt.v1"] = "reenact.attempt.v1"
    side_effects: list[SideEffect]
    started_at: str | None
    trace_id: str


class Event(Record, frozen=True, kw_only=True):
    data: str | None
    reason: str | None
    schema: Literal["reenact.event.v1"] = "reenact.event.v1"
    trace_id: str | None
    ts: str
    type: EventType
    who: str | None


class Vote(Record, frozen=True, kw_only=True):
    action_request_digest: str
    decision: Literal["APPROVE", "DENY"]
    digest: str | UnsetType = UNSET
    reason: str | None
    schema: Literal["reenact.vote.v1"] = "reenact.vote.v1"
    trace_id: str
    ts: str
    who: str


class PendingVote(Struct, frozen=True, kw_only=True):
    """A vote that is not in the journal yet: it waits in the store for whoever holds the run."""

    action_request_digest: str
    decision: Literal["APPROVE", "DENY"]
    reason: str
    ts: str
    who: str
    arguments: str | None = None
    """The commitment of what the call is made with; None of one that was left before votes were signed."""


class RunCheckpoint(Record, frozen=True, kw_only=True):
    commits: int
    digest: str | UnsetType = UNSET
    duplicates: str
    open: list[str]
    reserved_exact: str
    root: str
    run_head: str
    run_id: str
    schema: Literal["reenact.run_checkpoint.v1"] = "reenact.run_checkpoint.v1"
    spent_exact: str
    ts: str


class Seal(Record, frozen=True, kw_only=True):
    attempts_root: str
    commits: int
    plan_hash: str | None
    prev_store_seal: str
    root: str
    run_head: str
    run_id: str
    schema: Literal["reenact.seal.v1"] = "reenact.seal.v1"
    seal_digest: str | UnsetType = UNSET
    sealed_at: str
    status: RunStatus
    steps_planned: int
    traces: int


class Removal(Record, frozen=True, kw_only=True):
    """A value that was moved to a bundle, or erased after it was; `bundle` is that bundle's digest."""

    bundle: str | None
    commitment: str
    digest: str | UnsetType = UNSET
    prev: str
    reason: str
    run_id: str
    schema: Literal["reenact.erasure.v2"] = "reenact.erasure.v2"
    ts: str
    type: Literal["erased", "archived"]
    who: str


class Erasure(Record, frozen=True, kw_only=True):
    commitment: str
    digest: str | UnsetType = UNSET
    prev: str
    reason: str
    run_id: str
    schema: Literal["reenact.erasure.v1"] = "reenact.erasure.v1"
    ts: str
    who: str


build(PendingVote)
