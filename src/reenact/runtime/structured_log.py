"""A log that machines read: one JSON object a line, what must be the same in a replay apart from what may differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from reenact.runtime.listeners import Notice
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock, SystemClock

OWN_WORDS = frozenset({"recovered", "run_parked", "budget_alert"})
"""Facts whose message is Reenact's own."""


class StructuredLog:
    """A listener. `redact` takes secrets out of messages; by default nothing that a tool said is written at all."""

    def __init__(
        self, stream: IO[bytes], *, clock: Clock | None = None, redact: Callable[[str], str] | None = None
    ) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()
        self._redact = redact

    def __call__(self, notice: Notice) -> None:
        self._stream.write(canonicalize(line_of(notice, self._clock.timestamp(), self._redact)) + b"\n")
        self._stream.flush()


def line_of(notice: Notice, ts: str, redact: Callable[[str], str] | None) -> dict[str, object]:
    outcome = notice.outcome
    deterministic: dict[str, object] = {
        "event": notice.kind,
        "step_id": notice.step_id,
        "step_index": notice.step_index,
        "attempt": notice.attempt,
        "code": notice.code,
        "status": notice.status,
        "backoff_ms": notice.backoff_ms,
        "retryable": None if outcome is None else outcome.retryable,
        "cost_cents": None if outcome is None else outcome.cost_cents,
        "backend_retries": None if outcome is None else outcome.observability.backend_retries,
        "side_effects": None if outcome is None else [[effect.type, effect.target] for effect in outcome.side_effects],
        "skill_id": notice.skill_id if outcome is None else outcome.metadata.skill_id,
        "skill_version": None if outcome is None else outcome.metadata.skill_version,
    }
    other: dict[str, object] = {
        "timestamp": ts,
        "run_id": notice.run_id,
        "trace_id": None if outcome is None else outcome.observability.trace_id,
        "latency_ms": None if outcome is None else outcome.latency_ms,
    }
    if notice.message is not None and (redact is not None or notice.kind in OWN_WORDS):
        other["message"] = notice.message if redact is None else redact(notice.message)
    return {
        "deterministic": {key: value for key, value in deterministic.items() if value is not None},
        "other": {key: value for key, value in other.items() if value is not None},
    }
