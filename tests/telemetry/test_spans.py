"""OpenTelemetry spans of runs and calls, in the GenAI conventions, content off by default."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import SpanKind, StatusCode

from reenact import Registry
from reenact.replay import Runtime, load_recording
from reenact.store.sqlite.store import SqliteStore
from reenact.telemetry import spans
from reenact.telemetry.spans import Spans
from reenact.values.clock import FixedClock
from tests.replay.compare.mutating import PLAN
from tests.replay.skills import SKILLS


def traced(**options: Any) -> tuple[Runtime, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    clock = FixedClock()
    runtime = Runtime(
        SqliteStore(":memory:", clock=clock), skills=Registry(SKILLS), clock=clock,
        listeners=[Spans(provider, **options)],
    )  # fmt: skip
    return runtime, exporter


def call_span(exporter: InMemorySpanExporter, step_id: str) -> ReadableSpan:
    return next(s for s in exporter.get_finished_spans() if (s.attributes or {}).get("reenact.step.id") == step_id)


def test_names_are_those_of_the_conventions() -> None:
    assert (spans.OPERATION, spans.TOOL_NAME) == (conventions.GEN_AI_OPERATION_NAME, conventions.GEN_AI_TOOL_NAME)
    assert (spans.TOOL_CALL_ID, spans.TOOL_TYPE) == (conventions.GEN_AI_TOOL_CALL_ID, conventions.GEN_AI_TOOL_TYPE)
    assert (spans.TOOL_CALL_RESULT, spans.ERROR_TYPE) == (conventions.GEN_AI_TOOL_CALL_RESULT, ERROR_TYPE)


def test_a_call_is_one_span_with_its_attempts_as_events() -> None:
    runtime, exporter = traced()
    run_id = runtime.run(PLAN).run_id
    span = call_span(exporter, "fetch")
    call = load_recording(runtime.store, run_id).trace("fetch").call  # type: ignore[union-attr]

    assert (span.name, span.kind) == ("execute_tool reader", SpanKind.INTERNAL)
    assert span.attributes is not None
    assert span.attributes["gen_ai.operation.name"] == "execute_tool"
    assert span.attributes["gen_ai.tool.name"] == "reader"
    assert span.attributes["gen_ai.tool.call.id"] == call.tool_call_id  # type: ignore[union-attr]
    assert span.attributes["reenact.retries"] == 2
    assert [event.attributes["reenact.code"] for event in span.events if event.attributes] == [
        "ERR_HTTP_503", "ERR_TIMEOUT", "OK",
    ]  # fmt: skip
    assert span.status.status_code is StatusCode.UNSET


def test_a_failure_and_a_refusal_carry_their_code_as_error_type() -> None:
    runtime, exporter = traced()
    runtime.run(PLAN)

    for step_id, code in (("odd", "ERR_HTTP_404"), ("never", "ERR_SKILL_NOT_FOUND"), ("poor", "ERR_BUDGET_EXCEEDED")):
        span = call_span(exporter, step_id)
        assert (span.attributes or {})["error.type"] == code
        assert span.status.status_code is StatusCode.ERROR
    assert "error.type" not in (call_span(exporter, "same").attributes or {}), "a repetition left out is no error"


def test_every_call_is_under_the_span_of_its_run() -> None:
    runtime, exporter = traced()
    run_id = runtime.run(PLAN).run_id
    (run,) = [span for span in exporter.get_finished_spans() if span.name == "reenact run"]
    calls = [span for span in exporter.get_finished_spans() if span is not run]

    assert (run.attributes or {})["reenact.run.id"] == run_id
    assert len(calls) == 13
    assert {span.parent.span_id for span in calls if span.parent} == {run.context.span_id}


def test_content_stays_out_unless_it_is_asked_for() -> None:
    runtime, exporter = traced()
    runtime.run(PLAN)
    told = [value for span in exporter.get_finished_spans() for value in (span.attributes or {}).values()]
    assert "gen_ai.tool.call.result" not in (call_span(exporter, "mail").attributes or {})
    assert not [value for value in told if "mail 3" in str(value)]

    runtime, exporter = traced(capture_content=True)
    runtime.run(PLAN)
    assert (call_span(exporter, "mail").attributes or {})["gen_ai.tool.call.result"] == '"mail 3"'


def test_spans_of_a_live_replay_carry_its_mode_and_a_mock_replay_has_none() -> None:
    runtime, exporter = traced()
    run_id = runtime.run(PLAN).run_id
    exporter.clear()
    runtime.replay(run_id)
    assert exporter.get_finished_spans() == ()

    runtime.replay(run_id, mode="full_replay")
    modes = {(span.attributes or {}).get("reenact.mode") for span in exporter.get_finished_spans()}
    assert modes == {"full_replay"}
