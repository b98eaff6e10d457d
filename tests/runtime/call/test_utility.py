"""What a call was worth: its skill's word, else the scorer's, on record with its end."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Runtime, SkillContext, skill
from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import SkillError, UsageError
from reenact.journal.fold import TraceFold
from reenact.skills.context import utility_text
from tests import ctrl_c
from tests.engines.places import store_at
from tests.runtime.running import Bench, step


@skill("weigh", version="1.0.0", tool_class="read", idempotent=True, retry={"backoff_base_ms": 1})
def weigh(ctx: SkillContext, worth: float, failures: int = 0) -> float:
    """Says how much it helped, and helps at the last try."""
    ctx.utility(worth - ctx.attempt / 10)
    if ctx.attempt < failures:
        raise TimeoutError("not yet")
    return worth


@skill("weigh_apart", version="1.0.0", tool_class="read", isolation="process")
def weigh_apart(ctx: SkillContext) -> str:
    """The same in a process of its own."""
    ctx.utility(-0.25)
    return "apart"


@skill("silent", version="1.0.0", tool_class="read", idempotent=True)
def silent(text: str = "") -> str:
    """Says nothing of itself."""
    return text


def utility(trace: TraceFold) -> object:
    last = trace.effect or trace.decision
    assert last is not None
    assert isinstance(last.meta, dict)
    return last.meta.get("step_utility")


def by_step(bench: Bench, run_id: str) -> dict[str, object]:
    return {trace.step_id: utility(trace) for trace in bench.traces(run_id)}


def half(outcome: StructuredOutcome) -> float | None:
    return 0.5 if outcome.ok else -0.5


def test_the_skills_word_counts_and_of_several_attempts_the_last_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path, weigh, weigh_apart, silent)
    run = bench.run(step(weigh, {"worth": 0.8, "failures": 2}), step(weigh_apart), step(silent))
    assert by_step(bench, run.run_id) == {"s0": "0.6", "s1": "-0.25", "s2": None}
    bench.check(run)


def test_a_scorer_says_what_the_skill_does_not_of_refused_calls_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, weigh, silent, scorer=half)
    run = bench.run(
        step(weigh, {"worth": 1}), step(silent, {"text": "x"}), step("nobody", {}, on_error="continue"), step(silent)
    )
    assert by_step(bench, run.run_id) == {"s0": "1", "s1": "0.5", "s2": "-0.5", "s3": "0.5"}
    bench.check(run)


def test_a_replay_has_them_without_asking_anybody(tmp_path: Path) -> None:
    bench = Bench(tmp_path, weigh, silent, scorer=half)
    run = bench.run(step(weigh, {"worth": -1}), step(silent), step("nobody", {}, on_error="continue"))
    bench.runtime.scorer = None
    replayed = bench.runtime.replay(run.run_id)
    again = {recorded.step_id: utility(recorded.trace) for recorded in steps_of(replayed)}
    assert again == by_step(bench, run.run_id) == {"s0": "-1", "s1": "0.5", "s2": "-0.5"}


def steps_of(result: object) -> list:  # type: ignore[type-arg]
    from reenact.record.reader import RunReader

    return list(RunReader(result.store, result.run_id).steps())  # type: ignore[attr-defined]


def test_a_session_has_a_scorer_of_its_own_and_one_that_is_started_again_asks_it_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, silent, scorer=half)
    asked: list[str] = []

    def own(outcome: StructuredOutcome) -> float:
        asked.append(outcome.step_id)
        return len(asked) / 10

    for _ in range(2):
        with pytest.raises(KeyError), bench.runtime.session(id="order-7", scorer=own) as session:
            session.call("silent", {"text": "a"})
            session.call("silent", {"text": "b"})
            raise KeyError
    with bench.runtime.session(id="order-7", scorer=own) as session:
        session.call("silent", {"text": "a"})
        session.call("silent", {"text": "b"})
        session.call("silent", {"text": "c"})
    assert asked == ["main:1", "main:2", "main:3"]
    assert by_step(bench, session.run_id) == {"main:1": "0.1", "main:2": "0.2", "main:3": "0.3"}
    bench.check(session.run_id)


@pytest.mark.parametrize("said", [1.01, -2, float("nan"), float("inf"), True, "0.5", None])
def test_a_skill_that_says_what_is_no_utility_is_refused(said: object, tmp_path: Path) -> None:
    @skill("boast", version="1.0.0", tool_class="read")
    def boast(ctx: SkillContext) -> str:
        """Too much."""
        ctx.utility(said)  # type: ignore[arg-type]
        return "done"

    bench = Bench(tmp_path, boast)
    run = bench.run(step(boast))
    assert run.status == "failed"
    assert by_step(bench, run.run_id) == {"s0": None}


@pytest.mark.parametrize(
    "said", [1.01, "much", float("nan"), True, RuntimeError("mine"), SystemExit(3), asyncio.CancelledError()]
)
def test_a_scorer_that_fails_is_told_of_and_the_call_is_done(
    said: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def odd(_: StructuredOutcome) -> float:
        if isinstance(said, BaseException):
            raise said
        return said  # type: ignore[return-value]

    bench = Bench(tmp_path, silent, scorer=odd)
    with caplog.at_level(logging.WARNING, "reenact.runs"):
        run = bench.run(step(silent))
    assert run.status == "completed"
    assert by_step(bench, run.run_id) == {"s0": None}
    assert "step s0" in caplog.text
    bench.check(run)


def test_an_interrupt_in_a_scorer_is_heard_once_its_call_is_on_record(tmp_path: Path) -> None:
    sent: list[str] = []

    @skill("pay", version="1.0.0", tool_class="write")
    def pay(to: str) -> str:
        sent.append(to)
        return "paid"

    def interrupted(_: StructuredOutcome) -> float:
        raise KeyboardInterrupt

    bench = Bench(tmp_path, pay, scorer=interrupted)
    with ctrl_c.heard(), pytest.raises(KeyboardInterrupt):
        bench.run(step(pay, {"to": "kim"}), step(pay, {"to": "lee"}))
    bench.runtime.scorer = None
    (result,) = bench.runtime.recover()
    assert (result.status, sent) == ("completed", ["kim", "lee"])
    bench.check(result)


def test_a_scorer_is_not_shown_what_callers_are_not(tmp_path: Path) -> None:
    @skill("leak", version="1.0.0", tool_class="read")
    def leak(token: str) -> str:
        """Gives a secret back."""
        return f"it is {token}"

    seen: list[object] = []
    secrets = {"SHOP_TOKEN": "correct-horse-battery"}
    bench = Bench(tmp_path, leak, secrets=secrets, scorer=lambda outcome: seen.append(outcome.output))
    with bench.runtime.session() as session:
        session.call("leak", {"token": ""}, secrets={"/token": "SHOP_TOKEN"})
    assert len(seen) == 1
    assert "horse" not in str(seen)


def test_what_is_no_function_is_no_scorer() -> None:
    with pytest.raises(UsageError, match="scorer is a function"):
        Runtime(store_at(":memory:"), scorer=0.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="scorer is a function"):
        Runtime(store_at(":memory:")).session(scorer="good")  # type: ignore[arg-type]


def test_retries_that_were_used_up_are_on_record_and_a_failure_that_is_final_is_not(tmp_path: Path) -> None:
    @skill("wrong", version="1.0.0", tool_class="read", idempotent=True)
    def wrong() -> None:
        """Fails for good."""
        raise SkillError.of("ERR_PERMISSION_DENIED", "no")

    bench = Bench(tmp_path, weigh, wrong)
    never = {"worth": 0, "failures": 99}
    run = bench.run(
        step(weigh, never, on_error="continue", retry={"max_retries": 2}),
        step(weigh, never, on_error="continue", retry={"max_retries": 0}),
        step(wrong, on_error="continue"),
        step(weigh, {"worth": 0, "failures": 3}),
    )
    used = {trace.step_id: trace.effect.meta.get("retries_used_up") for trace in bench.traces(run.run_id)}  # type: ignore[union-attr]
    assert used == {"s0": True, "s1": None, "s2": None, "s3": None}
    bench.check(run)
    replayed = bench.runtime.replay(run.run_id)
    assert [step.trace.effect.meta.get("retries_used_up") for step in steps_of(replayed)] == [True, None, None, None]


@given(st.floats(-1, 1) | st.integers(-1, 1))
def test_a_utility_is_written_in_one_way_that_reads_back(value: float) -> None:
    import msgspec

    from reenact.verify.shapes import Utility

    text = utility_text(value)
    assert msgspec.convert(text, Utility) == text
    assert abs(float(text) - value) <= 5e-7
    assert utility_text(float(text)) == text
