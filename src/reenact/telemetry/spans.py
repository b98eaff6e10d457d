"""OpenTelemetry spans of runs and calls, in the conventions for generative AI.

One span `execute_tool {tool}` for each call, under one for the run. Arguments and results stay out unless asked for.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from reenact.runtime.listeners import Notice
from reenact.values.canonical import canonicalize
from reenact.version import __version__

OPERATION: Final = "gen_ai.operation.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"


class Spans:
    """A listener: `Runtime(listeners=[Spans()])`. Uses the global tracer provider unless one is given.

    Spans of replays carry `reenact.mode`, so that they can be told from production.
    """

    def __init__(self, provider: TracerProvider | None = None, *, capture_content: bool = False) -> None:
        self._tracer: Tracer = trace.get_tracer("reenact", __version__, tracer_provider=provider)
        self._capture = capture_content
        self._runs: dict[str, Span] = {}
        self._calls: dict[tuple[str, str], Span] = {}

    def __call__(self, notice: Notice) -> None:
        if notice.kind == "run_started":
            self._run_started(notice)
        elif notice.kind == "step_started":
            self._calls[notice.run_id, str(notice.step_id)] = self._call_span(notice)
        elif notice.kind == "attempt":
            self._attempt(notice)
        elif notice.kind in ("step_ended", "lost"):  # what comes of a lost answer later is a span of its own
            self._step_ended(notice)
        elif notice.kind == "run_ended":
            self._run_ended(notice)

    def _run_started(self, notice: Notice) -> None:
        attributes = {"reenact.run.id": notice.run_id, "reenact.mode": notice.mode}
        self._runs[notice.run_id] = self._tracer.start_span(
            "reenact run", kind=SpanKind.INTERNAL, attributes=attributes
        )

    def _call_span(self, notice: Notice) -> Span:
        parent = self._runs.get(notice.run_id)
        context = None if parent is None else trace.set_span_in_context(parent)
        attributes: dict[str, str | int] = {
            OPERATION: "execute_tool",
            TOOL_NAME: str(notice.skill_id),
            TOOL_TYPE: "function",
            "reenact.run.id": notice.run_id,
            "reenact.step.id": str(notice.step_id),
            "reenact.mode": notice.mode,
        }
        if notice.tool_call_id is not None:
            attributes[TOOL_CALL_ID] = notice.tool_call_id
        return self._tracer.start_span(
            f"execute_tool {notice.skill_id}", context=context, kind=SpanKind.INTERNAL, attributes=attributes
        )

    def _attempt(self, notice: Notice) -> None:
        span = self._calls.get((notice.run_id, str(notice.step_id)))
        if span is not None:
            event: dict[str, str | int] = {"reenact.attempt": notice.attempt or 0, "reenact.code": notice.code or ""}
            if notice.backoff_ms is not None:
                event["reenact.backoff_ms"] = notice.backoff_ms
            span.add_event("attempt", event)

    def _step_ended(self, notice: Notice) -> None:
        """A call that a gate denied was never started: its span begins and ends here."""
        span = self._calls.pop((notice.run_id, str(notice.step_id)), None) or self._call_span(notice)
        outcome = notice.outcome
        if outcome is not None:
            span.set_attribute("reenact.span.id", outcome.observability.span_id or "")
            span.set_attribute("reenact.code", outcome.code)
            span.set_attribute("reenact.retries", outcome.observability.backend_retries)
            span.set_attribute("reenact.cost_cents", outcome.cost_cents)
            if outcome.status == "failure":
                span.set_attribute(ERROR_TYPE, outcome.code)
                span.set_status(Status(StatusCode.ERROR))
            elif self._capture and outcome.ok:
                span.set_attribute(TOOL_CALL_RESULT, canonicalize(outcome.output).decode())
        span.end()

    def _run_ended(self, notice: Notice) -> None:
        span = self._runs.pop(notice.run_id, None)
        if span is None:
            return
        span.set_attribute("reenact.status", notice.status or "")
        if notice.status != "completed":
            span.set_status(Status(StatusCode.ERROR))
        span.end()
