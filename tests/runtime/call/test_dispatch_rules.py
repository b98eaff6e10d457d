"""Attempts: what is tried again, how long is waited, what it costs, and what may never be repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import SkillContext, skill
from reenact.errors import SkillError
from reenact.policy.retry import RetryPolicy, calculate_backoff_ms
from reenact.values.clock import FixedClock
from tests.runtime.running import Bench, outcome_of, step


def failing(times: int, error: BaseException, **declared: Any) -> tuple[Any, list[int]]:
    """A skill that fails some times before it succeeds, and the attempts that it saw."""
    attempts: list[int] = []

    @skill("tool", version="1.0.0", **declared)
    def tool(ctx: SkillContext) -> str:
        attempts.append(ctx.attempt)
        ctx.side_effect("touched", str(ctx.attempt))
        if len(attempts) <= times:
            raise error
        return "done"

    return tool, attempts


REFUSED = ConnectionRefusedError(111, "nobody there")
UNKNOWN_FATE = TimeoutError("no answer")


@pytest.mark.parametrize(
    ("declared", "error", "retried"),
    [
        ({"tool_class": "read"}, UNKNOWN_FATE, True),
        ({"tool_class": "write", "honours_key": True}, UNKNOWN_FATE, True),
        ({"idempotent": True}, UNKNOWN_FATE, True),
        ({"tool_class": "write"}, UNKNOWN_FATE, False),
        ({"tool_class": "write", "idempotent": True}, UNKNOWN_FATE, False),
        ({}, UNKNOWN_FATE, False),
        ({"tool_class": "write"}, REFUSED, True),
        ({"tool_class": "write"}, SkillError.of("ERR_HTTP_429", "slow down"), True),
        ({"tool_class": "read"}, SkillError.of("ERR_JSON_INVALID", "wrong"), False),
    ],
)
def test_what_may_have_happened_is_tried_again_only_where_that_is_harmless(
    declared: dict[str, Any], error: BaseException, retried: bool, tmp_path: Path
) -> None:
    tool, attempts = failing(1, error, retry={"max_retries": 3, "backoff_base_ms": 0}, **declared)
    bench = Bench(tmp_path, tool)
    result = bench.run(step(tool))
    assert (result.status == "completed") == retried
    assert attempts == ([0, 1] if retried else [0])
    bench.check(result)


def test_every_attempt_is_recorded_and_backs_off_as_the_policy_says(tmp_path: Path) -> None:
    clock = FixedClock()
    tool, attempts = failing(3, REFUSED, tool_class="read")
    bench = Bench(tmp_path, tool, clock=clock)
    retry = {"max_retries": 3, "backoff_base_ms": 100, "jitter_enabled": True, "jitter_max_ms": 50}
    result = bench.run(step(tool, retry=retry))
    policy = RetryPolicy(**retry)
    waits = [calculate_backoff_ms(n, policy, result.run_id, step_id="s0") for n in range(3)]
    assert clock.slept == [wait / 1000 for wait in waits]
    (trace,) = bench.traces(result.run_id)
    assert [attempt.backoff_ms for attempt in trace.attempts] == [*waits, None]
    assert [attempt.code for attempt in trace.attempts] == ["ERR_CONNECTION_REFUSED"] * 3 + ["OK"]
    assert attempts == [0, 1, 2, 3]
    outcome = outcome_of(result)
    assert outcome.observability.backend_retries == 3
    assert [effect.attempt for effect in outcome.side_effects] == [0, 1, 2, 3]
    bench.check(result)


def test_retries_end_with_the_last_code(tmp_path: Path) -> None:
    tool, attempts = failing(99, REFUSED, tool_class="read")
    bench = Bench(tmp_path, tool)
    result = bench.run(step(tool, retry={"max_retries": 2, "backoff_base_ms": 0}))
    outcome = outcome_of(result)
    assert (outcome.code, outcome.retryable, len(attempts)) == ("ERR_CONNECTION_REFUSED", True, 3)
    bench.check(result)


def test_a_server_that_asks_for_patience_gets_it_within_bounds(tmp_path: Path) -> None:
    clock = FixedClock()
    asked = iter([7_000, 3_600_000])

    @skill("busy", version="1.0.0", tool_class="read")
    def busy(ctx: SkillContext) -> str:
        if ctx.attempt < 2:
            ctx.retry_after(next(asked))
            raise SkillError.of("ERR_HTTP_429", "later")
        return "done"

    bench = Bench(tmp_path, busy, clock=clock)
    assert bench.run(step(busy, retry={"max_retries": 5, "backoff_base_ms": 100})).status == "completed"
    assert clock.slept == [7.0, 60.0]


def test_every_billed_attempt_is_charged_and_a_budget_stops_the_next_one(tmp_path: Path) -> None:
    tool, attempts = failing(99, UNKNOWN_FATE, tool_class="read", cost_estimate_cents=10)
    bench = Bench(tmp_path, tool)
    retry = {"max_retries": 9, "backoff_base_ms": 0}
    result = bench.run(step(tool, retry=retry), budget_cents=35)
    outcome = outcome_of(result)
    assert (outcome.code, len(attempts), outcome.cost_cents) == ("ERR_BUDGET_EXCEEDED", 3, 30)
    assert outcome.details is not None
    assert outcome.details["last_code"] == "ERR_TIMEOUT"
    bench.check(result)


def test_a_budget_that_is_just_enough_is_enough(tmp_path: Path) -> None:
    tool, _ = failing(0, UNKNOWN_FATE, tool_class="read", cost_estimate_cents=10)
    bench = Bench(tmp_path, tool)
    assert bench.run(step(tool), step(tool), budget_cents=20).status == "completed"
    assert bench.run(step(tool), step(tool), budget_cents=19).status == "failed"


def test_on_error_abort_stops_the_plan_and_continue_does_not(tmp_path: Path) -> None:
    tool, _ = failing(99, ValueError("no"), tool_class="read")
    bench = Bench(tmp_path, tool)
    stopped = bench.run(step(tool), step(tool))
    assert (stopped.status, len(stopped.outcomes)) == ("failed", 1)
    went_on = bench.run(step(tool, on_error="continue"), step(tool, on_error="continue"))
    assert (went_on.status, len(went_on.outcomes)) == ("completed", 2)
    for result in (stopped, went_on):
        bench.check(result)


def test_listeners_hear_a_fact_after_its_commit(tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []

    def listen(notice: Any) -> None:
        heard.append((notice.kind, len(list(bench.store.bodies(notice.run_id)))))

    tool, _ = failing(1, REFUSED, tool_class="read")
    bench = Bench(tmp_path, tool, listeners=[listen])
    result = bench.run(step(tool, retry={"backoff_base_ms": 0}))
    expected = ["run_started", "step_started", "attempt", "attempt", "step_ended", "run_ended"]
    assert [kind for kind, _ in heard if kind in expected] == expected
    assert heard[0][1] == 1
    assert heard[-1][1] == len(list(bench.store.bodies(result.run_id)))


def test_a_listener_that_fails_is_not_the_run_s_trouble(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(notice: Any) -> None:
        raise RuntimeError("no screen")

    tool, attempts = failing(0, REFUSED, tool_class="read")
    bench = Bench(tmp_path, tool, listeners=[broken])
    assert bench.run(step(tool), step(tool)).status == "completed"
    assert len(attempts) == 2
    assert "a listener failed on run_started" in caplog.text
