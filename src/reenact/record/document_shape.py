"""The shape of a run's document: which keys `reenact show --json` has, and what they mean.

Web pages, exporters and metrics may rely on it. Times are RFC 3339 in UTC; digests are lowercase hex, `plan_hash` with
`sha256:` before it; `cost_exact` is an integer of picodollars as a string. Every key is always there, and null where
there is nothing to say, unless it is `NotRequired`. `docs/reference/run_document.md` shows one.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class RunDocument(TypedDict):
    """One run: its head, its steps in the order of the plan, and what was said about it in the order of time."""

    run_id: str
    status: str
    """As the store has it; `open` for a bundle without a seal."""
    kind: str
    """`plan` or `session`."""
    mode: str
    """`live`, `full_replay`, `mock_replay`, `dry_run` or `fork`."""
    parent_run: str | None
    """The run that this one replays, forks, or goes on from."""
    continued_by: str | None
    """The run that goes on from this one, of a session with an id whose program diverged."""
    plan_id: str
    agent_id: str
    session: str | None
    """The id that its host gave to a session."""
    plan_hash: str | None
    """None for a session: its plan is known when it ends."""
    steps_planned: int | None
    started_at: str
    reenact_version: str
    commits: int
    head: str
    """Digest of the last commit that was read."""
    cost_exact: str
    cost_cents: int
    """The sum of what the steps are charged, each rounded up."""
    steps: list[StepDocument]
    events: list[EventDocument]
    """Events and votes, by `ts`."""
    replay: ReplayDocument | None
    """Of a replay that has ended."""
    seal: dict[str, Any] | None
    """The record that ends a run, as the journal has it; None while the run goes on."""
    interrupted: bool
    """It counts as running, and nobody works on it: only the store that it was made in can tell."""
    next: str | None
    """Who works on a run that has not ended, or what to type."""


class StepEnding(TypedDict):
    """How a step ended, from the chain alone: it can be told after the values are gone."""

    code: str | None
    """None while the step has not ended; so are `status`, `retries` and `ended_at`."""
    status: str | None
    """`success`, `failure` or `skipped`."""
    retries: int | None
    cost_exact: str
    cost_cents: int
    served_from: str | None
    """The trace whose recorded effect answered this call; nothing was sent."""
    started_at: str
    ended_at: str | None
    message: str | None
    """What went wrong; None where nothing did, or the words were erased."""


class StepValues(TypedDict, total=False):
    """Parameters and output, where they were asked for."""

    parameters: Any
    output: Any
    absent: list[str]
    """Which of the two were erased, or left out of an export."""


class StepDocument(StepEnding, StepValues):
    """One call: the gates' decision, every attempt, how it ended, and the digests that pin it."""

    step_index: int
    step_id: str
    skill: str
    """`id@version`; a tool that nobody knows has no version."""
    trace_id: str
    state: str
    """The state of the trace, `PENDING` to `COMPLETED`, `FAILED` or `DENIED`."""
    decision: DecisionDocument | None
    idempotency_key: str | None
    attempts: list[AttemptDocument]
    digests: dict[str, str]
    """`request`, `decision`, `call`, `effect` as far as the trace has come, and the `head` of its chain."""
    vote: EventDocument | None
    """The person's vote about this call, which also stands among the events."""


class DecisionDocument(TypedDict):
    """What the gates decided before anything was sent."""

    decision: str
    rationale: str
    gate: str | None
    code: str | None
    duplicate_of: str | None
    ts: str


class AttemptDocument(TypedDict):
    """One dispatch. `kind` is `attempt`, `lost` of an answer, `redispatch` of one in doubt, or `served`."""

    ordinal: int
    kind: str
    attempt: int
    """Retries made before this one, from 0."""
    code: str | None
    http_status: int | None
    exceptions: list[str]
    cost_exact: str
    backoff_ms: int | None
    retry_after_ms: int | None
    request_id: str | None
    side_effects: list[dict[str, str]]
    """`type` and `target` of each."""
    started_at: str | None
    ended_at: str | None
    fence: int
    response: str | None
    """The commitment under which the response lies."""
    digest: str


class ReplayDocument(TypedDict):
    """How a replay compared with its original, in the words of the determinism specification."""

    trace_id: str
    replay_mode: str
    original_run_id: str
    behavior_match: dict[str, bool]
    verdict: str


class EventDocument(TypedDict):
    """Something that was said about a run or a call: a vote, a word on a call in doubt, a cancel, a turn, an end.

    Which of the optional keys there are depends on `type`; `erased`, `archived` or `withheld` is there where the words
    are not.
    """

    type: str
    ts: str
    who: str | None
    trace_id: str | None
    step_id: str | None
    decision: NotRequired[Literal["APPROVE", "DENY"]]
    heard: NotRequired[bool]
    """Of a vote: whether whoever holds the run has taken it into the journal."""
    reason: NotRequired[str | None]
    resolution: NotRequired[str | None]
    commands: NotRequired[list[str] | None]
    exit_codes: NotRequired[list[int] | None]
    verification_delta: NotRequired[Any]
    confidence: NotRequired[Any]
    skill: NotRequired[str | None]
    """That changed and was accepted: `pinned` and `found` are its definition digests before and since."""
    pinned: NotRequired[str | None]
    found: NotRequired[str | None]
    erased: NotRequired[bool]
    archived: NotRequired[bool]
    withheld: NotRequired[bool]
