"""The locked log profile: entries, the four artifacts, states and checkpoints.

Fields stand in canonical key order, so that encoding a struct gives canonical bytes. A record that carries its own
digest is built with the digest left out; `reenact.journal.chain` computes it and puts it in.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

Scalar = str | int | bool | None
Meta = dict[str, Scalar]
State = Literal["PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED", "FAILED", "DENIED"]
ArtifactType = Literal["action_request", "supervisor_decision", "tool_call", "tool_effect"]
Decision = Literal["APPROVE", "DENY", "NEEDS_APPROVAL"]
EffectStatus = Literal["SUCCESS", "FAILURE", "DENIED", "ERROR"]
RiskLevel = Literal["READ", "WRITE", "HIGH_RISK"]
ToolClass = Literal["read", "write"]

UNDERSCORED = {"digest": "_digest", "digest_alg": "_digest_alg"}


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False, gc=False):
    """Base of everything that stands in a journal."""


class Resource(Record, frozen=True, kw_only=True):
    id: str
    kind: Literal["repo", "doc", "service", "db"]


class Proposal(Record, frozen=True, kw_only=True):
    args: dict[str, object]
    tool_name: str
    tool_server: str


class ActionRequest(Record, frozen=True, kw_only=True, rename=UNDERSCORED):
    digest: str | UnsetType = UNSET
    digest_alg: Literal["sha256"] = "sha256"
    action_request_id: str
    agent_id: str
    idempotency_key: str | UnsetType = UNSET
    intent: str
    meta: Meta | UnsetType = UNSET
    plan_id: str
    proposal: Proposal
    resources: list[Resource]
    risk_level: RiskLevel
    schema_id: Literal["talos.tga.action_request"] = "talos.tga.action_request"
    schema_version: Literal["tga.v1"] = "tga.v1"
    trace_id: str
    ts: str


class SupervisorDecision(Record, frozen=True, kw_only=True, rename=UNDERSCORED):
    digest: str | UnsetType = UNSET
    digest_alg: Literal["sha256"] = "sha256"
    action_request_digest: str
    action_request_id: str
    decision: Decision
    meta: Meta | UnsetType = UNSET
    minted_capability: str | UnsetType = UNSET
    plan_id: str
    policy_hash: str | UnsetType = UNSET
    rationale: str
    schema_id: Literal["talos.tga.supervisor_decision"] = "talos.tga.supervisor_decision"
    schema_version: Literal["tga.v1"] = "tga.v1"
    supervisor_decision_id: str
    trace_id: str
    ts: str


class ExpectedHash(Record, frozen=True, kw_only=True):
    hash: str
    pointer: str


class ToolCall(Record, frozen=True, kw_only=True, rename=UNDERSCORED):
    digest: str | UnsetType = UNSET
    digest_alg: Literal["sha256"] = "sha256"
    batch_total_bytes: int | UnsetType = UNSET
    call: Proposal
    capability_digest: str
    expected_document_hashes: list[ExpectedHash] | UnsetType = UNSET
    idempotency_key: str
    meta: Meta | UnsetType = UNSET
    plan_id: str
    schema_id: Literal["talos.tga.tool_call"] = "talos.tga.tool_call"
    schema_version: Literal["tga.v1"] = "tga.v1"
    supervisor_decision_digest: str
    supervisor_decision_id: str
    tool_call_id: str
    tool_class: ToolClass | UnsetType = UNSET
    trace_id: str
    ts: str


class EffectError(Record, frozen=True, kw_only=True):
    code: str
    message: str
    retryable: bool | UnsetType = UNSET


class ExternalRef(Record, frozen=True, kw_only=True):
    id: str
    kind: Literal["github_pr", "github_issue", "doc_id", "commit_sha"]


class EffectOutcome(Record, frozen=True, kw_only=True):
    error: EffectError | UnsetType = UNSET
    external_refs: list[ExternalRef] | UnsetType = UNSET
    status: EffectStatus
    summary: str | UnsetType = UNSET


class DocumentHash(Record, frozen=True, kw_only=True):
    hash: str
    pointer: str
    size_bytes: int


class ToolEffect(Record, frozen=True, kw_only=True, rename=UNDERSCORED):
    digest: str | UnsetType = UNSET
    digest_alg: Literal["sha256"] = "sha256"
    batch_total_bytes: int | UnsetType = UNSET
    content_hash_alg: Literal["sha256"] | UnsetType = UNSET
    document_hashes: list[DocumentHash] | UnsetType = UNSET
    meta: Meta | UnsetType = UNSET
    outcome: EffectOutcome
    plan_id: str
    schema_id: Literal["talos.tga.tool_effect"] = "talos.tga.tool_effect"
    schema_version: Literal["tga.v1"] = "tga.v1"
    tool_call_digest: str
    tool_call_id: str
    tool_effect_id: str
    trace_id: str
    ts: str

    def commitment(self, pointer: str) -> str | None:
        """The commitment behind `/output` or `/outcome`; None in a foreign effect that names none."""
        if isinstance(self.document_hashes, UnsetType):
            return None
        return next((item.hash for item in self.document_hashes if item.pointer == pointer), None)


Artifact = ActionRequest | SupervisorDecision | ToolCall | ToolEffect


class LogEntry(Record, frozen=True, kw_only=True):
    artifact_digest: str
    artifact_id: str
    artifact_type: ArtifactType
    entry_digest: str | UnsetType = UNSET
    from_state: State
    idempotency_key: str | None = None
    prev_entry_digest: str
    schema_id: Literal["talos.tga.execution_log_entry"] = "talos.tga.execution_log_entry"
    schema_version: Literal["v1"] = "v1"
    sequence_number: int
    to_state: State
    tool_call_id: str | None = None
    trace_id: str
    ts: str


class ExecutionState(Record, frozen=True, kw_only=True):
    current_state: State
    last_entry_digest: str
    last_sequence_number: int
    plan_id: str
    schema_id: Literal["talos.tga.execution_state"] = "talos.tga.execution_state"
    schema_version: Literal["v1"] = "v1"
    state_digest: str | UnsetType = UNSET
    trace_id: str


class CheckpointState(Record, frozen=True, kw_only=True):
    current_state: State
    last_entry_digest: str
    last_sequence_number: int
    plan_id: str
    trace_id: str


class ExecutionCheckpoint(Record, frozen=True, kw_only=True):
    checkpoint_digest: str
    checkpoint_sequence_number: int
    checkpoint_state: CheckpointState
    schema_id: Literal["talos.tga.execution_checkpoint"] = "talos.tga.execution_checkpoint"
    schema_version: Literal["v1"] = "v1"
    trace_id: str
    ts: str
