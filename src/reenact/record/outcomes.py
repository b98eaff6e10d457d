"""Outcomes: what a caller gets for a call, built from its trace and read back from the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

import msgspec
from msgspec.structs import replace

from reenact.contracts.artifacts import ActionRequest
from reenact.contracts.outcome import (
    Observability,
    OutcomeMetadata,
    OutcomeSideEffect,
    OutcomeStatus,
    StructuredOutcome,
)
from reenact.contracts.records import Attempt
from reenact.errors import DamagedRecord
from reenact.journal.fold import TraceFold
from reenact.policy.cost import cents
from reenact.policy.taxonomy import is_retryable
from reenact.record.payloads import Withheld
from reenact.values.canonical import as_recorded
from reenact.values.clock import elapsed_ms
from reenact.values.envelope import Archived

ERASED = "the value was erased; its commitment still stands"
ARCHIVED = "the value is archived; its commitment still stands"
WITHHELD = "the value was left out of this export; its commitment still stands"


def mark_of(gone: LookupError) -> dict[str, bool]:
    """What stands in the place of an output that is not here."""
    return {"$archived": True} if isinstance(gone, Archived) else {"$erased": True}


def words_for(gone: LookupError) -> str:
    return ARCHIVED if isinstance(gone, Archived) else WITHHELD if isinstance(gone, Withheld) else ERASED


class Payloads(Protocol):
    """Values by their commitment; LookupError for one that was erased."""

    def get(self, commitment: str, *, near: int | None = None) -> object: ...


def outcome_of(
    book: Payloads, trace: TraceFold, *, near: int | None = None, mark: Callable[[LookupError], object] = lambda _: None
) -> tuple[StructuredOutcome, object]:
    """(outcome, output) of a trace with an effect. Where values were erased, what the effect itself says remains.

    `mark` says what stands for an output that is gone.
    """
    if trace.effect is None:
        raise DamagedRecord(f"trace {trace.trace_id} of step {trace.step_id}: its effect is gone; see `reenact verify`")
    try:
        value = book.get(str(trace.effect.commitment("/outcome")), near=near)
        outcome = msgspec.convert(value, StructuredOutcome)
    except LookupError as gone:
        outcome = outcome_without_values(trace, words_for(gone))
    try:
        output = book.get(str(trace.effect.commitment("/output")), near=near)
    except LookupError as gone:
        output = mark(gone)
    return outcome, output


def lost_outcome(book: Payloads, trace: TraceFold, record: Attempt, *, near: int | None = None) -> StructuredOutcome:
    """What the caller was told when the answer to a dispatch was lost."""
    try:
        return msgspec.convert(book.get(str(record.response), near=near), StructuredOutcome)
    except LookupError as gone:
        return build_outcome(trace, "failure", str(record.code), words_for(gone), str(record.ended_at))


def denied_outcome_of(trace: TraceFold, explained: Mapping[str, object]) -> StructuredOutcome:
    """The outcome of a denied trace, computed from the decision: it needs no record of its own.

    `explained` is what the gate said besides, where that was not erased: `message`, and what may help the caller.
    """
    decided = trace.decision
    assert decided is not None
    meta = cast("dict[str, object]", decided.meta)
    code = str(meta["code"])
    details: dict[str, object] = {key: value for key, value in explained.items() if key != "message"}
    details |= {"gate": meta["gate"], "reason": explained.get("message", "")}
    if meta.get("duplicate_of"):
        details["duplicate_of"] = meta["duplicate_of"]
    return build_outcome(trace, denied_status(code), code, decided.rationale, decided.ts, details=details)


def denied_status(code: str) -> OutcomeStatus:
    """A call that was left out because an equal one had succeeded is no failure."""
    return "skipped" if code == "DENIED_DUPLICATE" else "failure"


def outcome_without_values(trace: TraceFold, message: str = ERASED) -> StructuredOutcome:
    """What the effect itself says, where the outcome that lay beside it was erased."""
    assert trace.effect is not None
    meta = cast("dict[str, object]", trace.effect.meta)
    status = cast("OutcomeStatus", meta["status"])  # the verifier checks the word, not we
    outcome = build_outcome(trace, status, str(meta["code"]), message, trace.effect.ts)
    took = meta.get("latency_ms")
    return replace(
        outcome,
        retryable=bool(meta["retryable"]),
        cost_cents=int(str(meta["cost_cents"])),
        latency_ms=took if isinstance(took, int) else took_ms(trace),
    )


def took_ms(trace: TraceFold) -> int:
    """How long the last attempt took that came back, by the times on record."""
    for attempt in reversed(trace.attempts):
        if attempt.kind == "attempt":
            return elapsed_ms(str(attempt.started_at), str(attempt.ended_at))
    return 0


def build_outcome(
    trace: TraceFold,
    status: OutcomeStatus,
    code: str,
    message: str,
    timestamp: str,
    *,
    details: dict[str, object] | None = None,
    latency_ms: int = 0,
) -> StructuredOutcome:
    """The outcome of a trace as it stands: its cost, retries and side effects are those of its attempts.

    Its details are as a record gives them back, from the first moment on: in the record's order.
    """
    meta = cast("dict[str, object]", cast("ActionRequest", trace.request).meta)
    return StructuredOutcome(
        code=code,
        cost_cents=cents(trace.cost_exact) if trace.cost_exact else 0,
        details=None if details is None else cast("dict[str, object]", as_recorded(details)),
        latency_ms=latency_ms,
        message=message,
        metadata=OutcomeMetadata(skill_id=str(meta["skill_id"]), skill_version=str(meta["skill_version"])),
        observability=Observability(
            backend_retries=max(0, trace.made - 1), span_id=span_id_of(trace.trace_id), trace_id=trace.trace_id
        ),
        retryable=not code.startswith("OK") and is_retryable(code),
        run_id=str(meta["run_id"]),
        side_effects=outcome_side_effects(trace) if trace.attempts else [],
        status=status,
        step_id=trace.step_id,
        timestamp=timestamp,
    )


def span_id_of(trace_id: str) -> str:
    """16 hex digits, as tracing systems want them: the second half of the trace's UUID."""
    return trace_id[19:23] + trace_id[24:]


def outcome_side_effects(trace: TraceFold) -> list[OutcomeSideEffect]:
    """What all attempts touched, in order."""
    return [
        OutcomeSideEffect(
            attempt=effect.attempt, target=effect.target, timestamp=attempt.ended_at or "", type=effect.type
        )
        for attempt in trace.attempts
        for effect in attempt.side_effects
    ]


def with_output(outcome: StructuredOutcome, output: object) -> StructuredOutcome:
    """What the caller gets: the recorded outcome, and the output beside it."""
    if outcome.details is None:
        return replace(outcome, details={"output": output})
    return replace(outcome, details=dict(sorted({**outcome.details, "output": output}.items())))


def said(outcome: StructuredOutcome) -> str:
    """What went wrong: the gate's own words where a gate refused, for the message then only names the gate."""
    reason = (outcome.details or {}).get("reason")
    return reason if isinstance(reason, str) and reason and "gate" in (outcome.details or {}) else outcome.message
