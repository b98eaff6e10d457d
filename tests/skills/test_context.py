"""What a skill is given, and what it tells back."""

from __future__ import annotations

import threading

import pytest

from reenact.values.clock import FixedClock, keyed_random
from tests.skills.contexts import RUN, make_context


def test_reports_are_collected_in_order() -> None:
    ctx = make_context()
    ctx.side_effect("http_request", "a.example")
    ctx.side_effect("http_request", "b.example")
    ctx.request_id("req_1")
    ctx.usage(10, 5, model="m-1")
    ctx.finish_reason("stop")
    ctx.retry_after(1500)
    ctx.http_status(429)
    ctx.response({"raw": True})
    report = ctx.close()
    assert report.side_effects == [("http_request", "a.example"), ("http_request", "b.example")]
    assert (report.request_id, report.model, report.finish_reason) == ("req_1", "m-1", "stop")
    assert report.usage == {"input_tokens": 10, "output_tokens": 5}
    assert (report.retry_after_ms, report.http_status, report.raw_response) == (1500, 429, {"raw": True})


def test_an_unreported_response_is_told_from_a_response_that_is_null() -> None:
    silent, null = make_context(), make_context()
    null.response(None)
    assert (silent.report.has_raw_response, null.report.has_raw_response) == (False, True)


def test_a_response_that_json_cannot_hold_is_recorded_as_such() -> None:
    ctx = make_context()
    ctx.response({"big": 2**60})
    assert "2^53-1" in ctx.report.raw_response["unrecordable"]
    ctx.response((1, 2))
    assert ctx.report.raw_response == [1, 2]


def test_nothing_is_recorded_after_close() -> None:
    heard: list[str] = []
    ctx = make_context(on_progress=heard.append)
    ctx.progress("half")
    report = ctx.close()
    ctx.side_effect("late", "x")
    ctx.usage(1, 1)
    ctx.http_status(200)
    ctx.progress("done")
    assert report.side_effects == []
    assert (report.usage, report.http_status) == (None, None)
    assert heard == ["half"]


def test_reports_from_many_threads_are_all_kept() -> None:
    ctx = make_context()
    threads = [
        threading.Thread(target=lambda n=n: [ctx.side_effect("t", str(n)) for _ in range(200)]) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ctx.report.side_effects) == 1600


def test_randomness_is_a_function_of_original_run_step_and_attempt() -> None:
    drawn = make_context(attempt=1).random.bytes(16)
    assert drawn == keyed_random(RUN, "s1", 1).bytes(16)
    assert make_context(run_id="another", original_run_id=RUN, attempt=1).random.bytes(16) == drawn
    assert make_context(attempt=2).random.bytes(16) != drawn
    assert make_context(attempt=1, step_id="s2").random.bytes(16) != drawn


def test_the_deadline_follows_the_monotonic_clock() -> None:
    clock = FixedClock()
    ctx = make_context(clock=clock, timeout_ms=2000)
    assert ctx.remaining_seconds == pytest.approx(2.0)
    clock.advance(1.5)
    assert ctx.remaining_seconds == pytest.approx(0.5)
    clock.advance(5)
    assert ctx.remaining_seconds == 0.0


def test_the_plans_context_and_the_services_cannot_be_changed_by_a_skill() -> None:
    ctx = make_context(context={"allow_hosts": []}, services={"kv": object()})
    with pytest.raises(TypeError):
        ctx.context["allow_hosts"] = ["*"]  # type: ignore[index]
    with pytest.raises(TypeError):
        ctx.services["kv"] = None  # type: ignore[index]
