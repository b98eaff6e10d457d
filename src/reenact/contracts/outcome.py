"""Outcomes: what a caller gets for every call (`StructuredOutcome`). A failure is a value, never an exception."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from reenact.contracts.tool_results import ToolResult, result_messages, result_text
from reenact.values.threads import build

OutcomeStatus = Literal["success", "failure", "partial", "skipped"]


class OutcomeSideEffect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempt: int
    target: str
    timestamp: str
    type: str


class OutcomeMetadata(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    skill_id: str
    skill_version: str


class Observability(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    backend_retries: int
    span_id: str | None
    trace_id: str


class StructuredOutcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Closed. `details` holds the output and what upstream said; it may be erased, the rest may not."""

    code: str
    cost_cents: int
    details: dict[str, object] | None = None
    latency_ms: int
    message: str
    metadata: OutcomeMetadata
    observability: Observability
    retryable: bool = False
    run_id: str
    side_effects: list[OutcomeSideEffect]
    status: OutcomeStatus
    step_id: str
    timestamp: str

    @property
    def ok(self) -> bool:
        """True for success and partial: the call did something that can be used."""
        return self.status in ("success", "partial")

    @property
    def output(self) -> object:
        """What the skill returned; None when it failed or when the value was erased."""
        return None if self.details is None else self.details.get("output")

    def as_message(self, call_id: str, *, style: str = "openai") -> dict[str, object]:
        """The result as the message that a model is told it with; `call_id` is that of the model's tool call."""
        [message] = result_messages([ToolResult(call_id, result_text(self), not self.ok)], style)
        return message


build(StructuredOutcome)
