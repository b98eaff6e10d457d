"""What cannot have happened is found, however well its digests recompute."""

from __future__ import annotations

from typing import Any

import pytest
from tools.vectors.scenarios import BUSY, CHANGES

from reenact.verify import Report
from reenact.verify.calls.rules import grown_wait
from tests.verify.test_contradictions import judge, new_run, one_step

TIMED_OUT = {"exceptions": [{"type": "builtins.TimeoutError", "errno": None}]}


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("OK_HTTP_CALL", {"http_status": 503}),
        ("OK_HTTP_CALL", TIMED_OUT),
        ("OK", {"exceptions": [{"type": "reenact.errors.SkillError.ERR_HTTP_429", "errno": None}]}),
        ("ERR_HTTP_503", {"http_status": 200}),
    ],
)
def test_a_code_that_its_facts_do_not_say(code: str, facts: dict[str, Any]) -> None:
    report = judge(one_step(attempt={"facts": facts, "change": {"code": code}}))
    assert report.first_break is not None
    assert report.first_break.code == "CODE_MISMATCH"


def retried(context: dict[str, Any] | None = None, *, times: int = 1, **attempt: Any) -> Report:
    """A read that is answered 503 so often and then comes back."""
    run = new_run(**(context or {}))
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    for number in range(times):
        fields = {"facts": BUSY, "backoff_ms": 100 * 2**number, "retry_after_ms": None, **attempt}
        trace.attempt(fields.pop("code", "ERR_HTTP_503"), **fields)
        run.commit()
        run.wait(1000)
    trace.attempt("OK_HTTP_CALL", facts={"http_status": 200}, response=CHANGES)
    trace.effect("OK_HTTP_CALL", output=CHANGES)
    run.seal()
    return judge(run)


@pytest.mark.parametrize(
    ("retry", "attempt"),
    [
        ({}, {}),
        ({"max_retries": 1}, {}),
        ({"max_backoff_ms": 30}, {"backoff_ms": 30}),
        ({"max_backoff_ms": 30}, {"backoff_ms": 9000, "retry_after_ms": 9000}),
        ({"max_backoff_ms": 30}, {"backoff_ms": 60_000, "retry_after_ms": 9_000_000}),
        ({}, {"code": "ERR_HTTP_4XX", "facts": {"http_status": 409}, "backoff_ms": 700}),  # the first is waited for
    ],
)
def test_a_retry_that_the_policy_makes_holds(retry: dict[str, Any], attempt: dict[str, Any]) -> None:
    assert codes(retried({"retry": retry}, **attempt)) == []


@pytest.mark.parametrize(
    ("retry", "times", "attempt"),
    [
        ({"max_retries": 0}, 1, {}),
        ({"max_retries": 2}, 3, {}),
        ({"retryable_codes": ["ERR_HTTP_502"]}, 1, {}),
        ({}, 1, {"backoff_ms": 99}),
        ({}, 1, {"backoff_ms": 0}),
        ({"jitter_enabled": True, "jitter_max_ms": 50}, 1, {"backoff_ms": 151}),
        ({}, 1, {"backoff_ms": 100, "retry_after_ms": 3000}),
    ],
)
def test_a_retry_that_the_policy_does_not_make(retry: dict[str, Any], times: int, attempt: dict[str, Any]) -> None:
    report = retried({"retry": retry}, times=times, **attempt)
    assert set(codes(report)) == {"RETRY_MISMATCH"}
    assert report.integrity == "broken"


def test_jitter_is_computed_again() -> None:
    outcomes = [
        codes(retried({"retry": {"jitter_enabled": True, "jitter_max_ms": 8}}, backoff_ms=100 + n)) for n in range(8)
    ]
    assert outcomes.count([]) == 1


def test_a_power_that_nobody_can_wait_for_is_not_computed() -> None:
    assert grown_wait(10_000, 100, 1.0011234567, 5000) == 5000


@pytest.mark.parametrize(
    "amounts",
    [
        {"limit_exact": "99999999999999999"},
        {"spent_exact": "1"},
        {"required_exact": "10000000000001"},
    ],
)
def test_amounts_that_do_not_follow_from_the_budget(amounts: dict[str, Any]) -> None:
    good = one_step().traces[0].artifacts["supervisor_decision"]["meta"]
    assert codes(judge(one_step(approve={"change": {"meta": {**good, **amounts}}})))[:1] == ["BUDGET_MISMATCH"]


def test_a_refusal_for_want_of_money_that_was_there() -> None:
    run = new_run()
    amounts = {"limit_exact": "10000000000000", "spent_exact": "0", "required_exact": "10000000000000"}
    run.step(0).request(risk="READ", public=["method"]).deny("budget", "ERR_BUDGET_EXCEEDED", **amounts)
    run.seal("failed")
    assert codes(judge(run)) == ["BUDGET_MISMATCH"]


def test_times_that_go_back_are_told_and_break_nothing() -> None:
    """A clock that was set back is no forgery."""
    report = judge(one_step(attempt={"started_at": "2020-01-01T00:00:00.000Z"}))
    assert codes(report) == []
    assert any("times go back" in note for note in report.notes)
