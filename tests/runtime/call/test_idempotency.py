"""One key, one effect: in parallel, across processes, after crashes. And no key where nobody gave one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, RunResult, Runtime, SkillContext, skill
from reenact.errors import SkillError
from reenact.replay import load_recording
from reenact.runtime.gates import key as keys
from reenact.store.base import KeyRecord
from tests.crash.harness import KILLED, SKILLS, Stage, check_survived, in_child, look
from tests.replay.recording import mocked
from tests.runtime.clocks import LaterClock
from tests.runtime.running import Bench, plan, step

HOUR_S = 3600.0


def keyed_plan(stage: Stage, value: int = 1, key: str = "order-42", **fields: object) -> dict[str, Any]:
    return plan(step("act", {"ledger": stage.ledger_path, "value": value}, idempotency_key=key, **fields))


def pinned_alike(runtime: Runtime, document: dict[str, Any]) -> dict[str, Any]:
    """Under one salt, so that the caller's key is the same key in every run."""
    return runtime.pinned(document)


def check_one_execution(stage: Stage, results: list[RunResult]) -> None:
    assert len(stage.ledger.calls()) == 1
    assert [result.status for result in results] == ["completed"] * len(results)
    outcomes = [result.outcomes[0] for result in results]
    assert {str(outcome.output) for outcome in outcomes} == {"{'value': 1}"}
    served = [outcome for outcome in outcomes if outcome.details and "served_from" in outcome.details]
    assert len(served) == len(results) - 1
    assert all(outcome.cost_cents == 0 for outcome in served)


def test_five_parallel_calls_with_one_key_are_one_execution_and_five_equal_results(stage: Stage) -> None:
    bench = Bench(stage.folder, *SKILLS)
    document = pinned_alike(bench.runtime, keyed_plan(stage))
    results = bench.gather(*[document] * 5)
    check_one_execution(stage, results)
    for result in results:
        bench.check(result)


def test_the_key_goes_to_one_also_when_all_five_find_it_free(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads before any of them has written: only the transaction of the call can tell them apart."""
    bench = Bench(stage.folder, *SKILLS)
    document = pinned_alike(bench.runtime, keyed_plan(stage))
    real, asked = bench.store.key_record, []

    def stale(*key: str) -> KeyRecord | None:
        asked.append(key)
        return None if len(asked) <= 5 else real(*key)

    monkeypatch.setattr(bench.store, "key_record", stale)
    results = bench.gather(*[document] * 5)
    check_one_execution(stage, results)
    for result in results:
        bench.check(result)


def test_five_processes_with_one_key_are_one_execution_and_five_equal_results(stage: Stage) -> None:
    runtime = stage.runtime()
    document = pinned_alike(runtime, keyed_plan(stage))
    runtime.close()
    children = [fork(lambda: stage.runtime().run(document)) for _ in range(5)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 5
    bench = Bench(stage.folder, *SKILLS)
    runs = [RunResult(row.run_id, row.status, bench.store) for row in bench.store.runs()]
    check_one_execution(stage, runs)
    for result in runs:
        bench.check(result)


def fork(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def test_the_same_key_with_other_arguments_is_a_conflict_and_reaches_nobody(stage: Stage) -> None:
    bench = Bench(stage.folder, *SKILLS)
    document = pinned_alike(bench.runtime, keyed_plan(stage, 1))
    other = pinned_alike(bench.runtime, keyed_plan(stage, 2))
    other["context"]["pins"]["salt"] = document["context"]["pins"]["salt"]
    assert bench.runtime.run(document).status == "completed"
    refused = bench.runtime.run(other)
    assert (refused.status, refused.final_code) == ("failed", "IDEMPOTENCY_CONFLICT")
    (trace,) = bench.traces(refused.run_id)
    assert (trace.state, trace.effect, trace.attempts) == ("DENIED", None, [])
    assert len(stage.ledger.calls()) == 1
    bench.check(refused)


def test_another_agent_s_call_under_the_same_key_is_a_conflict(stage: Stage) -> None:
    bench = Bench(stage.folder, *SKILLS)
    document = pinned_alike(bench.runtime, keyed_plan(stage))
    assert bench.runtime.run(document).status == "completed"
    refused = bench.runtime.run({**document, "agent_id": "somebody else"})
    assert refused.final_code == "IDEMPOTENCY_CONFLICT"
    assert len(stage.ledger.calls()) == 1


def test_a_key_whose_call_failed_is_free_again(stage: Stage) -> None:
    asked = []

    @skill("mail", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 0})
    def mail(ctx: SkillContext) -> str:
        asked.append(ctx.idempotency_key)
        if len(asked) == 1:
            raise ValueError("no such address")
        return "sent"

    bench = Bench(stage.folder, mail)
    document = pinned_alike(bench.runtime, plan(step(mail, idempotency_key="k")))
    assert bench.runtime.run(document).status == "failed"
    assert bench.runtime.run(document).status == "completed"
    assert bench.runtime.run(document).status == "completed"
    assert len(asked) == 2
    assert len(set(asked)) == 1, "the key is the same each time"
    for row in bench.store.runs():
        bench.check(row.run_id)


def test_a_key_in_flight_elsewhere_is_waited_for_within_bounds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(stage.folder, *SKILLS)
    document = pinned_alike(bench.runtime, keyed_plan(stage))
    assert in_child(lambda: stage.runtime().run(document), crash_at="before_dispatch") == KILLED
    with monkeypatch.context() as hasty:
        hasty.setattr(keys, "IN_FLIGHT_WAIT_S", 0.05)
        hasty.setattr(keys, "POLL_S", 0.01)
        waiting = bench.runtime.run(document)
    assert waiting.status == "held", "whoever has the key died: what comes of its call is not known yet"
    assert "nobody works on that run" in str(waiting.reason)
    assert [result.status for result in bench.runtime.recover()] == ["completed", "completed"]
    bench.check(waiting)
    assert bench.runtime.run(document).outcomes[0].output == {"value": 1}
    assert len(stage.ledger.calls()) == 1


def test_two_equal_mails_without_a_key_are_two(stage: Stage) -> None:
    bench = Bench(stage.folder, *SKILLS)
    mail = step("act", {"ledger": stage.ledger_path, "value": 1})
    result = bench.run(mail, mail)
    assert result.status == "completed"
    assert len(stage.ledger.calls()) == len(stage.ledger.effects()) == 2
    bench.check(result)


def test_a_plan_that_polls_one_url_twice_is_not_denied(tmp_path: Path) -> None:
    answers = iter(["not yet", "done"])

    @skill("poll", version="1.0.0", tool_class="read", idempotent=True)
    def poll(url: str) -> str:
        return next(answers)

    bench = Bench(tmp_path, poll)
    result = bench.run(step(poll, {"url": "x"}), step(poll, {"url": "x"}))
    assert [outcome.output for outcome in result.outcomes] == ["not yet", "done"]


@pytest.mark.parametrize("point", ["before_dispatch", "after_dispatch", "after_commit:1", "after_commit:2"])
def test_a_capability_that_expired_before_recovery_does_not_stop_the_call(point: str, stage: Stage) -> None:
    """Also where the approval was durable and the call was not yet: the second commit holds the call."""
    document = keyed_plan(stage)
    assert in_child(lambda: stage.runtime().run(document), crash_at=point) == KILLED
    before = look(stage)
    later = Runtime(stage.url, skills=SKILLS, clock=LaterClock(HOUR_S))
    (result,) = later.recover()
    assert result.status == "completed"
    check_survived(stage, before)


def status_409(ctx: SkillContext) -> None:
    ctx.http_status(409)


def own_word_409(ctx: SkillContext) -> None:
    raise SkillError.of("ERR_HTTP_409", "in flight")


@pytest.mark.parametrize("conflict", [status_409, own_word_409])
def test_409_after_a_re_dispatch_is_the_first_call_still_at_work_and_no_failure(
    stage: Stage, conflict: Callable[[SkillContext], None]
) -> None:
    """The other side knows the key: it answers 409 until the first dispatch is through, then with its result."""

    @skill("pay", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 1, "backoff_base_ms": 1})
    def pay(ctx: SkillContext, ledger: str) -> str:
        before = Stage(Path(ledger).parent).ledger.arrive(ctx)
        if before == 0:
            os.kill(os.getpid(), 9)
        if before < 4:
            conflict(ctx)
            return "in flight"
        return "paid"

    document = plan(step(pay, {"ledger": stage.ledger_path}))
    stage.ledger.calls()
    assert in_child(lambda: Bench(stage.folder, pay).runtime.run(document)) == KILLED
    bench = Bench(stage.folder, pay)
    (result,) = bench.runtime.recover()
    assert (result.status, result.outcomes[0].output) == ("completed", "paid")
    assert len({call.key for call in stage.ledger.calls()}) == 1
    bench.check(result)


@pytest.mark.parametrize("conflict", [status_409, own_word_409])
@pytest.mark.parametrize("declared", [{"tool_class": "write", "honours_key": True}, {"idempotent": True}])
def test_409_to_a_retry_after_a_timeout_is_the_first_call_still_at_work(
    tmp_path: Path, conflict: Callable[[SkillContext], None], declared: dict[str, Any]
) -> None:
    @skill("pay", version="1.0.0", retry={"max_retries": 1, "backoff_base_ms": 0}, **declared)
    def pay(ctx: SkillContext) -> str:
        if ctx.attempt == 0:
            raise TimeoutError("no answer")
        if ctx.attempt < 4:
            conflict(ctx)
            return "in flight"
        return "paid"

    bench = Bench(tmp_path, pay)
    result = bench.run(step(pay))
    assert (result.status, result.outcomes[0].output) == ("completed", "paid")
    bench.check(result)
    recording = load_recording(bench.store, result.run_id)
    for skills in (Registry([pay]), Registry()):
        assert mocked(recording, skills).verdict == "matched"


def test_409_to_a_read_or_to_what_was_surely_not_sent_is_an_ordinary_failure(tmp_path: Path) -> None:
    def failing(skill_id: str, first: Exception, **declared: Any) -> Any:
        @skill(skill_id, version="1.0.0", retry={"max_retries": 3, "backoff_base_ms": 0}, **declared)
        def tool(ctx: SkillContext) -> str:
            if ctx.attempt == 0:
                raise first
            ctx.http_status(409)
            return "conflict"

        return tool

    read = failing("look", TimeoutError("no answer"), tool_class="read")
    write = failing("pay", ConnectionRefusedError(111, "nobody there"), tool_class="write")
    bench = Bench(tmp_path, read, write)
    assert [bench.run(step(tool)).final_code for tool in (read, write)] == ["ERR_HTTP_4XX", "ERR_HTTP_4XX"]


def test_409_that_never_ends_is_for_a_person(stage: Stage) -> None:
    @skill("pay", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 0, "backoff_base_ms": 1})
    def pay(ctx: SkillContext, ledger: str) -> str:
        if Stage(Path(ledger).parent).ledger.arrive(ctx) == 0:
            os.kill(os.getpid(), 9)
        ctx.http_status(409)
        return "in flight"

    document = plan(step(pay, {"ledger": stage.ledger_path}))
    stage.ledger.calls()
    assert in_child(lambda: Bench(stage.folder, pay).runtime.run(document)) == KILLED
    (result,) = Bench(stage.folder, pay).runtime.recover()
    assert result.status == "held"
    assert "409" in str(result.reason)


def test_409_on_a_first_dispatch_is_an_ordinary_failure(tmp_path: Path) -> None:
    @skill("pay", version="1.0.0", tool_class="write", honours_key=True)
    def pay(ctx: SkillContext) -> str:
        ctx.http_status(409)
        return "conflict"

    bench = Bench(tmp_path, pay)
    assert bench.run(step(pay)).final_code == "ERR_HTTP_4XX"
