"""The form of every record, as this verifier reads it. Written from `docs/spec/`, shared with no writer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Uuid7 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")]
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY = (
    r"(?:[0-9]{4}-(?:"
    r"(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])"
    rf")|{_LEAP_YEAR}-02-29)"
)
Time = Annotated[str, Meta(pattern=rf"\A(?!0000){_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{{3}}Z\Z")]
Hex64 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
PlanHash = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
Kid = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Code = Annotated[str, Meta(pattern=r"\A[A-Z0-9_]{1,64}\Z")]
Exact = Annotated[str, Meta(pattern=r"\A(?:0|[1-9][0-9]{0,39})\Z")]
StepId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:-]{1,128}\Z")]
SkillId = Annotated[str, Meta(max_length=128, pattern=r"\A[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_.-]+)?\Z")]
Lane = Annotated[str, Meta(pattern=r"\Amain(?:\.[A-Za-z0-9_-]{1,36})*\Z", max_length=100)]
Word = Annotated[str, Meta(pattern=r"\A[a-z0-9_-]+\Z")]
Key = Annotated[str, Meta(min_length=1, max_length=255)]
Who = Annotated[str, Meta(min_length=1, max_length=255)]
Utility = Annotated[str, Meta(pattern=r"\A(?:-?(?:0\.[0-9]{0,5}[1-9]|1)|0)\Z")]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
State = Literal["PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED", "FAILED", "DENIED"]
Text = Annotated[str, Meta(min_length=10, max_length=1000)]
VersionText = Annotated[str, Meta(min_length=1, max_length=64)]


class Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Closed: a key that is not named here is refused."""


class Artifact(Shape, tag_field="schema_id", rename={"digest": "_digest", "digest_alg": "_digest_alg"}):
    schema_version: Literal["tga.v1"]
    trace_id: Uuid7
    plan_id: Uuid7
    ts: Time
    digest: Hex64
    digest_alg: Literal["sha256"]


class Resource(Shape):
    kind: Literal["repo", "doc", "service", "db"]
    id: Annotated[str, Meta(min_length=1)]


class Call(Shape):
    tool_server: Word
    tool_name: Word
    args: dict[str, Any]


class RequestMeta(Shape):
    run_id: Uuid7
    step_id: StepId
    step_index: Count
    turn: Count
    skill_id: SkillId
    skill_version: str | None
    definition_digest: Hex64 | None
    idempotency_source: Literal["caller", "step", "trace"]
    key: Hex64 | UnsetType = UNSET
    lane: Lane | UnsetType = UNSET


class ActionRequest(Artifact, tag="talos.tga.action_request", kw_only=True):
    action_request_id: Uuid7
    agent_id: Uuid7
    risk_level: Literal["READ", "WRITE", "HIGH_RISK"]
    intent: Text
    resources: Annotated[list[Resource], Meta(min_length=1)]
    proposal: Call
    meta: RequestMeta


class DecisionMeta(Shape):
    gate: Literal["validate", "permission", "key", "duplicate", "budget", "supervisor"]
    code: Code
    vote: Hex64 | None
    duplicate_of: Uuid7 | None
    details: Hex64 | None
    limit_exact: Exact | None
    spent_exact: Exact | None
    required_exact: Exact | None
    day_spent_exact: Exact | None
    model_spent_exact: Exact | None
    step_utility: Utility | UnsetType = UNSET


class SupervisorDecision(Artifact, tag="talos.tga.supervisor_decision", kw_only=True):
    supervisor_decision_id: Uuid7
    action_request_id: Uuid7
    action_request_digest: Hex64
    decision: Literal["APPROVE", "DENY"]
    rationale: Text
    meta: DecisionMeta
    minted_capability: str | UnsetType = UNSET


class ToolCall(Artifact, tag="talos.tga.tool_call", kw_only=True):
    tool_call_id: Uuid7
    supervisor_decision_id: Uuid7
    supervisor_decision_digest: Hex64
    capability_digest: Hex64
    call: Call
    tool_class: Literal["read", "write"]
    idempotency_key: Key


class EffectError(Shape):
    code: Code
    message: Annotated[str, Meta(max_length=200)]
    retryable: bool


class EffectOutcome(Shape):
    status: Literal["SUCCESS", "FAILURE", "DENIED", "ERROR"]
    error: EffectError | UnsetType = UNSET


class DocumentHash(Shape):
    pointer: Annotated[str, Meta(pattern=r"\A/")]
    hash: Hex64
    size_bytes: Count


class EffectMeta(Shape):
    code: Code
    status: Literal["success", "failure", "partial", "skipped"]
    retryable: bool
    cost_cents: Count
    cost_exact: Exact
    retries: Count
    attempts: Count
    attempts_head: Hex64
    served_from: Uuid7 | None
    side_effects: Hex64
    step_utility: Utility | UnsetType = UNSET
    retries_used_up: Literal[True] | UnsetType = UNSET
    latency_ms: Count | UnsetType = UNSET


class ToolEffect(Artifact, tag="talos.tga.tool_effect", kw_only=True):
    tool_effect_id: Uuid7
    tool_call_id: Uuid7
    tool_call_digest: Hex64
    outcome: EffectOutcome
    document_hashes: list[DocumentHash]
    content_hash_alg: Literal["sha256"]
    meta: EffectMeta


AnyArtifact = ActionRequest | SupervisorDecision | ToolCall | ToolEffect


class Entry(Shape):
    schema_id: Literal["talos.tga.execution_log_entry"]
    schema_version: Literal["v1"]
    trace_id: Uuid7
    sequence_number: Positive
    prev_entry_digest: Hex64
    entry_digest: Hex64
    ts: Time
    from_state: State
    to_state: State
    artifact_type: Literal["action_request", "supervisor_decision", "tool_call", "tool_effect"]
    artifact_id: Uuid7
    artifact_digest: Hex64
    tool_call_id: Uuid7 | None
    idempotency_key: Key | None


class Run(Shape):
    schema: Literal["reenact.run.v1"]
    run_id: Uuid7
    kind: Literal["plan", "session", "trace"]
    mode: Literal["live", "full_replay", "mock_replay", "dry_run", "fork"]
    parent_run: Uuid7 | None
    plan_id: Uuid7
    agent_id: Uuid7
    plan_hash: PlanHash | None
    plan: Hex64 | None
    steps_planned: Count | None
    capability_key: Kid
    reenact_version: VersionText
    started_at: Time
    key_run: Uuid7 | UnsetType = UNSET


class Event(Shape):
    schema: Literal["reenact.event.v1"]
    type: Literal[
        "turn", "verify", "now", "finish", "resolve", "cancel", "synthesized", "late", "accept_changed", "went_on",
        "pinned",
    ]  # fmt: skip
    ts: Time
    who: Who | None
    reason: Hex64 | None
    trace_id: Uuid7 | None
    data: Hex64 | None


class WentOn(Shape):
    """The payload of a `went_on` event; `status` and `message` of a call that waits, the times of one that was cut."""

    lane: str
    why: Literal["cancelled", "waiting", "answered"]
    waited_ms: Count | UnsetType = UNSET
    open_ms: Count | UnsetType = UNSET
    status: Literal["waiting", "held"] | UnsetType = UNSET
    message: str | UnsetType = UNSET


class AcceptedSkill(Shape):
    """The payload of an `accept_changed` event."""

    skill: str
    pinned: Hex64
    found: Hex64


class Vote(Shape):
    schema: Literal["reenact.vote.v1"]
    trace_id: Uuid7
    action_request_digest: Hex64
    decision: Literal["APPROVE", "DENY"]
    who: Who
    reason: Hex64 | None
    ts: Time
    digest: Hex64


class RaisedException(Shape):
    type: Annotated[str, Meta(min_length=1, max_length=255)]
    errno: int | None


class Usage(Shape):
    input_tokens: Count | None
    output_tokens: Count | None


class Facts(Shape):
    http_status: Annotated[int, Meta(ge=100, le=599)] | None
    exceptions: list[RaisedException]
    usage: Usage | None
    finish_reason: Annotated[str, Meta(max_length=64)] | None


class SideEffect(Shape):
    type: Annotated[str, Meta(min_length=1, max_length=64)]
    target: Annotated[str, Meta(max_length=1024)]
    attempt: Count


class Attempt(Shape):
    schema: Literal["reenact.attempt.v1"]
    trace_id: Uuid7
    ordinal: Count
    kind: Literal["attempt", "lost", "redispatch", "served"]
    attempt: Count
    facts: Facts | None
    code: Code | None
    cost_exact: Exact
    side_effects: list[SideEffect]
    request_id: Annotated[str, Meta(max_length=255)] | None
    retry_after_ms: Count | None
    backoff_ms: Count | None
    response: Hex64 | None
    started_at: Time | None
    ended_at: Time | None
    fence: Count
    prev: Hex64
    digest: Hex64
    asked_after: Count | UnsetType = UNSET
    made_after: Count | UnsetType = UNSET


class CheckpointState(Shape):
    trace_id: Uuid7
    plan_id: Uuid7
    current_state: State
    last_sequence_number: Count
    last_entry_digest: Hex64


class Checkpoint(Shape):
    schema_id: Literal["talos.tga.execution_checkpoint"]
    schema_version: Literal["v1"]
    trace_id: Uuid7
    checkpoint_sequence_number: Count
    checkpoint_state: CheckpointState
    checkpoint_digest: Hex64
    ts: Time


class RunCheckpoint(Shape):
    schema: Literal["reenact.run_checkpoint.v1"]
    run_id: Uuid7
    commits: Positive
    run_head: Hex64
    root: Hex64
    open: list[Uuid7]
    spent_exact: Exact
    reserved_exact: Exact
    duplicates: Hex64
    ts: Time
    digest: Hex64


class Seal(Shape):
    schema: Literal["reenact.seal.v1"]
    run_id: Uuid7
    plan_hash: PlanHash | None
    status: Literal["completed", "failed", "cancelled"]
    steps_planned: Count
    traces: Count
    commits: Positive
    run_head: Hex64
    root: Hex64
    attempts_root: Hex64
    prev_store_seal: Hex64
    sealed_at: Time
    seal_digest: Hex64


class Erasure(Shape):
    schema: Literal["reenact.erasure.v1"]
    commitment: Hex64
    run_id: Uuid7
    who: Who
    ts: Time
    reason: Annotated[str, Meta(max_length=1000)]
    prev: Hex64
    digest: Hex64


_FILE_NAMES = (
    r"\A(?:(?:journal|erasures|notes|REPLAY)\.jsonl|(?:plan|keys|RECEIPT)\.json|seal\.(?:json|note|tlog-proof|tsr)"
    r"|payloads/[0-9a-f]{64}|payloads(?:-[1-9][0-9]{0,2})?\.jsonl\.gz|parents/[0-9a-f-]{36}/manifest\.json)\Z"
)
FileName = Annotated[str, Meta(pattern=_FILE_NAMES)]


class Manifest(Shape):
    schema: Literal["reenact.bundle.v1", "reenact.bundle.v2"]
    run_id: Uuid7
    reenact_version: VersionText
    payloads: Literal["full", "none"]
    files: dict[FileName, Hex64]
    digest: Hex64


class Constraints(Shape):
    tool_server: str
    tool_name: str
    target_allowlist: list[str]
    arg_constraints: dict[str, Any]
    read_only: bool


class Claims(Shape):
    iss: Annotated[str, Meta(pattern=r"\Areenact:[A-Za-z0-9_.:-]{1,128}\Z")]
    aud: Literal["reenact"]
    iat: Count
    exp: Count
    nonce: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    trace_id: Uuid7
    plan_id: Uuid7
    constraints: Constraints


class JwsHeader(Shape):
    alg: Literal["EdDSA"]
    kid: Kid
    typ: Literal["JWT"]


class OutcomeSideEffect(msgspec.Struct, frozen=True):
    type: str
    target: str
    attempt: int
    timestamp: Time


class OutcomeMetadata(msgspec.Struct, frozen=True):
    skill_id: str
    skill_version: str


class Observability(msgspec.Struct, frozen=True):
    trace_id: str
    backend_retries: int


class Outcome(Shape):
    """As it is stored: complete, and without `details.output`."""

    status: Literal["success", "failure", "partial", "skipped"]
    code: Code
    message: str
    timestamp: Time
    cost_cents: Count
    latency_ms: Count
    run_id: Uuid7
    step_id: StepId
    details: dict[str, Any] | None
    retryable: bool
    side_effects: list[OutcomeSideEffect]
    metadata: OutcomeMetadata
    observability: Observability


OnError = Literal["abort", "continue"]
WaitMs = Annotated[int, Meta(ge=0, le=7 * 24 * 3600 * 1000)]


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a failed attempt is retried, as far as it says so."""

    max_retries: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType = UNSET
    backoff_base_ms: WaitMs | UnsetType = UNSET
    backoff_multiplier: Annotated[float, Meta(ge=1, le=1000)] | UnsetType = UNSET
    max_backoff_ms: WaitMs | UnsetType | None = UNSET
    jitter_enabled: bool | UnsetType = UNSET
    jitter_max_ms: WaitMs | UnsetType = UNSET
    retryable_codes: list[Code] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.backoff_multiplier is not UNSET and 1 < self.backoff_multiplier < 1.001:
            raise ValueError("backoff_multiplier is 1, or a number from 1.001 to 1000")


class Budget(msgspec.Struct, frozen=True):
    mode: Literal["hard", "soft"] = "hard"
    per_run_cents: Count | None = None


class PlanStep(msgspec.Struct, frozen=True):
    step_id: StepId
    skill_id: SkillId
    skill_version: str | None = None
    on_error: OnError | None = None
    parameters: Any = None
    idempotency_key: Any = None
    retry: RetryRules | None = None


class Pins(msgspec.Struct, frozen=True):
    salt: Hex64
    skills: dict[str, Hex64]
    retry: dict[str, RetryRules] = {}


class PinnedSkill(msgspec.Struct, frozen=True, kw_only=True):
    definition_digest: Hex64
    price: dict[str, Any]
    retry: RetryRules | None = None
    side_effects: bool


class Pinned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of a `pinned` event."""

    skills: dict[str, PinnedSkill] = {}
    models: dict[str, dict[str, Any]] = {}


class PlanContext(msgspec.Struct, frozen=True):
    pins: Pins
    on_error: OnError | None = None
    retry: RetryRules | None = None
    budget_cents: Count | None = None
    budget: Budget | None = None

    @property
    def per_run_cents(self) -> int | None:
        of_budget = None if self.budget is None else self.budget.per_run_cents
        return of_budget if self.budget_cents is None else self.budget_cents

    @property
    def is_soft(self) -> bool:
        return self.budget is not None and self.budget.mode == "soft"


class Plan(msgspec.Struct, frozen=True):
    """What the run must agree with; the rest of the plan is covered by its hash."""

    plan_id: Annotated[str, Meta(min_length=1, max_length=128)]
    agent_id: Annotated[str, Meta(min_length=1, max_length=128)]
    steps: list[PlanStep]
    context: PlanContext
