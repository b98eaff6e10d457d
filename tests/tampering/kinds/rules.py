"""Runs that are whole and signed, and that did not keep to their own rules: arguments, codes, retries, amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tools.vectors.scenarios import BUSY, CHANGES, FETCH, SUM_UP
from tools.vectors.writer import Run

from tests.tampering.kinds.contradictions import made
from tests.tampering.kinds.kind import Kind
from tests.verify.test_contradictions import DECISION_META, finish, new_run, one_step
from tests.verify.test_rules import TIMED_OUT


def retried(retry: dict[str, Any] | None = None, *, times: int = 1, **attempt: Any) -> Callable[[], Run]:
    def make() -> Run:
        run = new_run(**({} if retry is None else {"retry": retry}))
        trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
        for number in range(times):
            fields = {"facts": BUSY, "backoff_ms": 100 * 2**number, **attempt}
            trace.attempt(fields.pop("code", "ERR_HTTP_503"), **fields)
        finish(run, trace)
        run.seal()
        return run

    return make


def attempted(code: str, **facts: Any) -> Callable[[], Run]:
    return lambda: one_step(
        attempt={"facts": facts, "change": {"code": code}}, effect={"meta": {"code": code}, "outcome": {"code": code}}
    )


def decided(**amounts: Any) -> Callable[[], Run]:
    return lambda: one_step(approve={"change": {"meta": {**DECISION_META, **amounts}}})


def with_arguments(args: dict[str, Any], step: dict[str, Any] = FETCH) -> Callable[[], Run]:
    def make() -> Run:
        run = new_run(step)
        trace = run.step(0).request(risk="READ", args=args).approve().call()
        finish(run, trace)
        run.seal()
        return run

    return make


def referred(prompt: str) -> Callable[[], Run]:
    """The second step is called with what the first one returned, or not."""

    def make() -> Run:
        run = new_run(FETCH, SUM_UP)
        fetch = run.step(0).request(risk="READ", public=["method"]).approve().call()
        finish(run, fetch)
        sum_up = run.step(1).request(args={"model": "example-model", "prompt": prompt}).approve().call()
        sum_up.attempt("OK_LLM_INVOKE", facts={"finish_reason": "stop"}, response=CHANGES)
        sum_up.effect("OK_LLM_INVOKE", output={"text": "x"})
        run.seal()
        return run

    return make


def refused_with_money() -> Run:
    run = new_run()
    amounts = {"limit_exact": "10000000000000", "spent_exact": "0", "required_exact": "10000000000000"}
    run.step(0).request(risk="READ", public=["method"]).deny("budget", "ERR_BUDGET_EXCEEDED", **amounts)
    run.seal("failed")
    return run


def runs() -> dict[str, Callable[[], Run]]:
    return {
        "a success that its facts deny": attempted("OK", http_status=503),
        "a success after an exception": attempted("OK", **TIMED_OUT),
        "a failure that its facts deny": failed_well,
        "more retries than the policy has": retried({"max_retries": 0}),
        "a retry too many": retried({"max_retries": 2}, times=3),
        "a retry of a code that the policy does not name": retried({"retryable_codes": ["ERR_HTTP_502"]}),
        "a wait that is too short": retried(backoff_ms=99),
        "a wait that is too long": retried(backoff_ms=101),
        "a wait that does not heed the server": retried(backoff_ms=100, retry_after_ms=3000),
        "a wait with another jitter": retried({"jitter_enabled": True, "jitter_max_ms": 50}, backoff_ms=151),
        "an approval under another limit": decided(limit_exact="99999999999999999"),
        "an approval that forgets what was spent": decided(spent_exact="1"),
        "an approval beyond the budget": decided(required_exact="10000000000001"),
        "a refusal for want of money that was there": refused_with_money,
        "an argument that the plan does not have": with_arguments({"method": "GET", "url": "http://127.0.0.1:9/"}),
        "an argument more than the plan has": with_arguments(FETCH["parameters"] | {"more": 1}),
        "an argument less than the plan has": with_arguments({"method": "GET"}),
        "an argument that no output comes to": referred('Sum up ["9.9.9 is out"]'),
    }


def failed_well() -> Run:
    run = new_run()
    trace = run.step(0).request(risk="READ", public=["method"]).approve().call()
    trace.attempt("ERR_HTTP_503", facts={"http_status": 200}, response=CHANGES)
    trace.effect("ERR_HTTP_503", status="failure")
    run.seal("failed")
    return run


def kinds() -> Iterator[Kind]:
    for name, make in runs().items():
        yield made(name, make)
