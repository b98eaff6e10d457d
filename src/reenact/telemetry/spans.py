"""OpenTelemetry spans of runs and calls, in the conventions for generative AI.

One span `execute_tool {tool}` for each call, under one for the run. Arguments and results stay out unless asked for.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from reenact.runtime.listeners import Fact
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

    def __call__(self, fact: Fact) -> None:
        if fact.kind == "run_started":
            self._run_started(fact)
        elif fact.kind == "step_started":
            self._calls[fact.run_id, str(fact.step_id)] = self._call_span(fact)
        elif fact.kind == "attempt":
            self._attempt(fact)
        elif fact.kind == "step_ended":
            self._step_ended(fact)
        elif fact.kind == "run_ended":
            self._run_ended(fact)

    def _run_started(self, fact: Fact) -> None:
        attributes = {"reenact.run.id": fact.run_id, "reenact.mode": fact.mode}
        self._runs[fact.run_id] = self._tracer.start_span("reenact run", kind=SpanKind.INTERNAL, attributes=attributes)

    def _call_span(self, fact: Fact) -> Span:
        parent = self._runs.get(fact.run_id)
        context = None if parent is None else trace.set_span_in_context(parent)
        attributes: dict[str, str | int] = {
            OPERATION: "execute_tool",
            TOOL_NAME: str(fact.skill_id),
            TOOL_TYPE: "function",
            "reenact.run.id": fact.run_id,
            "reenact.step.id": str(fact.step_id),
            "reenact.mode": fact.mode,
        }
        if fact.tool_call_id is not None:
            attributes[TOOL_CALL_ID] = fact.tool_call_id
        return self._tracer.start_span(
            f"execute_tool {fact.skill_id}", context=context, kind=SpanKind.INTERNAL, attributes=attributes
        )

    def _attempt(self, fact: Fact) -> None:
        span = self._calls.get((fact.run_id, str(fact.step_id)))
        if span is not None:
            event: dict[str, str | int] = {"reenact.attempt": fact.attempt or 0, "reenact.code": fact.code or ""}
            if fact.backoff_ms is not None:
                event["reenact.backoff_ms"] = fact.backoff_ms
            span.add_event("attempt", event)

    def _step_ended(self, fact: Fact) -> None:
        """A call that a gate denied was never started: its span begins and ends here."""
        span = self._calls.pop((fact.run_id, str(fact.step_id)), None) or self._call_span(fact)
        outcome = fact.outcome
        if outcome is not None:
            span.set_attribute("reenact.code", outcome.code)
            span.set_attribute("reenact.retries", outcome.observability.backend_retries)
            span.set_attribute("reenact.cost_cents", outcome.cost_cents)
            if outcome.status == "failure":
                span.set_attribute(ERROR_TYPE, outcome.code)
                span.set_status(Status(StatusCode.ERROR))
            elif self._capture and outcome.ok:
                span.set_attribute(TOOL_CALL_RESULT, canonicalize(outcome.output).decode())
        span.end()

    def _run_ended(self, fact: Fact) -> None:
        span = self._runs.pop(fact.run_id, None)
        if span is None:
            return
        span.set_attribute("reenact.status", fact.status or "")
        if fact.status != "completed":
            span.set_status(Status(StatusCode.ERROR))
        span.end()
