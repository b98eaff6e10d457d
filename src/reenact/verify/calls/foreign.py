"""Traces that another runtime wrote through the log's own interface: held against the log's specification alone.

Their run is of kind `trace`. What Reenact adds to artifacts in `meta`, its attempts and its payloads are not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from reenact.values.canonical import canonicalize
from reenact.values.digest import digest
from reenact.verify.lines import EntryLine
from reenact.verify.report import Problem, first_difference
from reenact.verify.shapes import (
    ActionRequest,
    Attempt,
    Checkpoint,
    Code,
    Count,
    DocumentHash,
    Entry,
    Key,
    Shape,
    SupervisorDecision,
    ToolCall,
    ToolEffect,
    Uuid7,
)
from reenact.verify.traces import Scene, Trace

Scalars = dict[str, str | int | float | bool | None]
GOOD = "SUCCESS"


class ForeignEntry(Entry):
    tool_call_id: Uuid7 | None = None
    idempotency_key: Key | None = None


class ForeignRequest(ActionRequest, tag="talos.tga.action_request"):
    meta: Scalars | UnsetType = UNSET  # type: ignore[assignment]
    idempotency_key: Key | UnsetType = UNSET


class ForeignDecision(SupervisorDecision, tag="talos.tga.supervisor_decision"):
    meta: Scalars | UnsetType = UNSET  # type: ignore[assignment]
    policy_hash: str | UnsetType = UNSET


class ForeignCall(ToolCall, tag="talos.tga.tool_call"):
    tool_class: Literal["read", "write"] | UnsetType = UNSET  # type: ignore[assignment]
    expected_document_hashes: list[DocumentHash] | UnsetType = UNSET
    batch_total_bytes: Count | UnsetType = UNSET
    meta: Scalars | UnsetType = UNSET


class ForeignRef(Shape):
    kind: Literal["github_pr", "github_issue", "doc_id", "commit_sha"]
    id: str


class ForeignError(Shape):
    code: Code
    message: Annotated[str, Meta(max_length=200)]
    retryable: bool | UnsetType = UNSET


class ForeignOutcome(Shape):
    status: Literal["SUCCESS", "FAILURE", "DENIED", "ERROR"]
    summary: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET
    external_refs: list[ForeignRef] | UnsetType = UNSET
    error: ForeignError | UnsetType = UNSET


class ForeignEffect(ToolEffect, tag="talos.tga.tool_effect"):
    outcome: ForeignOutcome  # type: ignore[assignment]
    document_hashes: list[DocumentHash] | UnsetType = UNSET  # type: ignore[assignment]
    content_hash_alg: Literal["sha256"] | UnsetType = UNSET  # type: ignore[assignment]
    batch_total_bytes: Count | UnsetType = UNSET
    meta: Scalars | UnsetType = UNSET  # type: ignore[assignment]


class ForeignLine(EntryLine, tag="entry"):
    entry: ForeignEntry
    artifact: ForeignRequest | ForeignDecision | ForeignCall | ForeignEffect


class ForeignTrace(Trace):
    """One trace by the log's specification: chain, artifacts and their links."""

    __slots__ = ("_plan_id",)

    def __init__(self, trace_id: str, index: int) -> None:
        super().__init__(trace_id, index)
        self._plan_id: str | None = None

    def entry(self, line: EntryLine, value: Mapping[str, Any], _scene: Scene, /) -> Iterator[Problem]:
        broken = self.damaged
        artifact, entry = line.artifact, line.entry
        self._plan_id = self._plan_id or artifact.plan_id
        recomputed = digest({key: item for key, item in value["artifact"].items() if key != "_digest"})
        problem = first_difference(
            "ARTIFACT_DIGEST", (("_digest of the artifact", recomputed, artifact.digest),)
        ) or first_difference(
            "ARTIFACT_LINK",
            (
                ("the artifact's plan_id", self._plan_id, artifact.plan_id),
                ("the entry's artifact_type", kind_of(artifact), entry.artifact_type),
                ("the entry's artifact_id", getattr(artifact, f"{kind_of(artifact)}_id"), entry.artifact_id),
                ("the entry's artifact_digest", artifact.digest, entry.artifact_digest),
                ("the entry's trace_id", artifact.trace_id, entry.trace_id),
                ("the entry's ts", artifact.ts, entry.ts),
            ),
        )
        problem = self.chain.append(value["entry"]) or problem
        self.damaged = broken or problem is not None
        if broken:
            return
        found = problem or self._linked(artifact)
        if found is not None:
            yield found

    def _linked(self, artifact: Any) -> Problem | None:
        """An artifact against the one that it answers."""
        if isinstance(artifact, ForeignRequest):
            self.request = artifact
            return None
        if isinstance(artifact, ForeignDecision):
            self.decision, asked = artifact, self.request
            assert asked is not None  # the chain is whole
            approved = artifact.decision == "APPROVE"
            pairs: list[tuple[str, object, object]] = [
                ("action_request_id", asked.action_request_id, artifact.action_request_id),
                ("action_request_digest", asked.digest, artifact.action_request_digest),
                ("the state after the decision", "AUTHORIZED" if approved else "DENIED", self.chain.state),
                ("minted_capability is there", approved, artifact.minted_capability is not UNSET),
            ]
        elif isinstance(artifact, ForeignCall):
            self.call, decided, asked = artifact, self.decision, self.request
            assert decided is not None
            assert asked is not None
            proposed, called = canonicalize(asked.proposal).decode(), canonicalize(artifact.call).decode()
            pairs = [
                ("supervisor_decision_id", decided.supervisor_decision_id, artifact.supervisor_decision_id),
                ("supervisor_decision_digest", decided.digest, artifact.supervisor_decision_digest),
                ("call", proposed, called),
            ]
        else:
            assert self.call is not None
            pairs = [
                ("tool_call_id", self.call.tool_call_id, artifact.tool_call_id),
                ("tool_call_digest", self.call.digest, artifact.tool_call_digest),
                ("the effect is a success", self.chain.state == "COMPLETED", artifact.outcome.status == GOOD),
            ]
        return first_difference("ARTIFACT_LINK", pairs)

    def attempt(self, _record: Attempt, _value: Mapping[str, Any], /) -> Iterator[Problem]:
        yield Problem("ATTEMPT_CHAIN", "an attempt in a trace of another runtime, which records none")

    def checkpoint(self, record: Checkpoint, plan_id: str) -> Problem | None:
        return super().checkpoint(record, self._plan_id or plan_id)


def kind_of(artifact: Any) -> str:
    return str(type(artifact).__struct_config__.tag).removeprefix("talos.tga.")
