"""Whatever a skill does, the run goes on, its evidence verifies, and the outcome has a code."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import SkillContext, skill
from reenact.errors import SkillError
from reenact.skills.skill import Skill
from tests.runtime.running import Bench, outcome_of, step

SURROGATE = "half a pair: \ud800"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Loud(BaseException):
    """Not even an Exception."""


class Odd(Exception):
    __module__ = None  # type: ignore[assignment]


def raises_when_asked(name: str, what: type[BaseException], base: type[BaseException] = Exception) -> BaseException:
    """An exception with an attribute that raises."""

    def refuse(_self: object) -> object:
        raise what

    value: object = refuse if name in ("__str__", "__repr__") else property(refuse, lambda _self, _value: None)
    kind: type[BaseException] = type("Vicious", (base,), {name: value})
    return kind()


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def raising(error: BaseException) -> Callable[[SkillContext], Any]:
    def body(ctx: SkillContext):
        raise error

    return body


def reporting(report: Callable[[SkillContext], object]) -> Callable[[SkillContext], Any]:
    def body(ctx: SkillContext):
        report(ctx)

    return body


ASKED_FOR: tuple[tuple[str, type[BaseException]], ...] = (
    *((name, Exception) for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__", "__notes__")),
    *((name, Exception) for name in ("__class__", "__str__", "__repr__", "response", "status_code", "args")),
    ("details", SkillError),
    ("code", SkillError),
    ("errno", OSError),
    ("__cause__", RuntimeError),
)

RAISED = {
    "nothing to say": (Exception(), "ERR_INTERNAL"),
    "half a surrogate pair": (ValueError(SURROGATE), None),
    "a text that cannot be printed": (Unprintable(), "ERR_INTERNAL"),
    "no Exception at all": (Loud("x"), "ERR_INTERNAL"),
    "no module": (Odd("x"), None),
    "SystemExit": (SystemExit(3), None),
    "KeyboardInterrupt": (KeyboardInterrupt(), None),
    "StopIteration": (StopIteration(), None),
    "GeneratorExit": (GeneratorExit(), None),
    "CancelledError": (asyncio.CancelledError(), None),
    "a group": (BaseExceptionGroup("several", [ConnectionRefusedError(111, "x"), KeyboardInterrupt()]), None),
    "details that JSON has no word for": (SkillError.of("ERR_JSON_INVALID", "x", why=object(), n=math.nan), None),
    "a huge message": (ValueError("x" * 1_000_000), None),
    "MemoryError": (MemoryError(), None),
    "an errno beyond all bounds": (OSError(2**70, "x"), None),
    "a negative errno": (OSError(-5, "x"), None),
    **{
        f"{what.__name__} for the {name} of a {base.__name__}": (raises_when_asked(name, what, base), None)
        for name, base in ASKED_FOR
        for what in (RuntimeError, SystemExit)
    },
}

RETURNED = {
    "NaN": math.nan,
    "infinity": {"x": [math.inf]},
    "bytes": b"\xff",
    "itself": circular(),
    "a set": {1},
    "an object": object(),
    "half a surrogate pair": SURROGATE,
    "a huge integer": 2**60,
    "a key that is no text": {1: 2},
    "a class": int,
    "too deep": None,
}

REPORTED: dict[str, Callable[[SkillContext], object]] = {
    "a request id with half a pair": lambda ctx: ctx.request_id(SURROGATE),
    "a request id that is no text": lambda ctx: ctx.request_id(42),  # type: ignore[arg-type]
    "a side effect that is no text": lambda ctx: ctx.side_effect(None, object()),  # type: ignore[arg-type]
    "a side effect with half a pair": lambda ctx: ctx.side_effect("x", SURROGATE),
    "usage that is no number": lambda ctx: ctx.usage("many", None),  # type: ignore[arg-type]
    "usage beyond all bounds": lambda ctx: ctx.usage(10**30, -5),
    "a status that is no number": lambda ctx: ctx.http_status("OK"),  # type: ignore[arg-type]
    "a wait that is no number": lambda ctx: ctx.retry_after("soon"),  # type: ignore[arg-type]
    "an endless wait": lambda ctx: ctx.retry_after(10**40),
    "a finish reason with half a pair": lambda ctx: ctx.finish_reason(SURROGATE),
    "a finish reason that is no text": lambda ctx: ctx.finish_reason(["x"]),  # type: ignore[arg-type]
    "a response that is no JSON": lambda ctx: ctx.response(object()),
    "a response that contains itself": lambda ctx: ctx.response(circular()),
}


def hostile(body: Callable[[SkillContext], object], *, in_loop: bool) -> Any:
    declare = skill("hostile", version="1.0.0", retry={"max_retries": 0})
    if not in_loop:
        return declare(body)

    async def run(ctx: SkillContext):
        return body(ctx)

    return declare(run)


def check(bench: Bench, *, code: str | None) -> None:
    """The run comes to its end through a failure with a code."""
    result = bench.run(step("hostile", on_error="continue"), step("hostile"))
    assert result.status == "failed"
    first, second = result.outcomes
    assert (first.status, first.code) == (second.status, second.code) == ("failure", code or first.code)
    assert first.code.startswith("ERR_")
    bench.check(result)


@pytest.mark.parametrize("case", RAISED)
def test_a_skill_in_a_thread_may_raise(case: str, tmp_path: Path) -> None:
    error, code = RAISED[case]
    check(Bench(tmp_path, hostile(raising(error), in_loop=False)), code=code)


@pytest.mark.parametrize("case", [case for case in RAISED if case != "KeyboardInterrupt"])
def test_a_skill_in_the_loop_may_raise(case: str, tmp_path: Path) -> None:
    """All but KeyboardInterrupt: in the loop's own thread that is the person at the keyboard."""
    error, code = RAISED[case]
    check(Bench(tmp_path, hostile(raising(error), in_loop=True)), code=code)


@pytest.mark.parametrize("case", RETURNED)
def test_a_skill_may_return_what_json_cannot_express(case: str, tmp_path: Path) -> None:
    value = RETURNED[case]
    if case == "too deep":
        value = [[]]
        for _ in range(10_000):
            value = [value]
    check(Bench(tmp_path, hostile(lambda ctx: value, in_loop=False)), code="ERR_SERIALIZATION_FAILED")


@pytest.mark.parametrize("case", REPORTED)
def test_a_skill_may_report_nonsense(case: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, hostile(reporting(REPORTED[case]), in_loop=False))
    result = bench.run(step("hostile", on_error="continue"), step("hostile"))
    assert result.status in ("completed", "failed")
    bench.check(result)


LINGER = threading.Event()


@skill("hangs", version="1.0.0", tool_class="read", retry={"max_retries": 3, "backoff_base_ms": 1})
def hangs() -> None:
    """Longer than it may."""
    LINGER.wait()


def test_a_skill_that_hangs_in_its_thread_is_not_sent_again_while_it_lives(tmp_path: Path) -> None:
    LINGER.clear()
    bench = Bench(tmp_path, hangs)
    try:
        result = bench.run(step(hangs, timeout_ms=20))
    finally:
        LINGER.set()
    outcome = outcome_of(result)
    assert (outcome.code, outcome.observability.backend_retries) == ("ERR_TIMEOUT", 0)
    assert "still runs" in outcome.message
    bench.check(result)


def test_a_skill_that_hangs_in_the_loop_is_cancelled_and_sent_again(tmp_path: Path) -> None:
    cancelled = []

    @skill("sleeps", version="1.0.0", tool_class="read", retry={"max_retries": 2, "backoff_base_ms": 1})
    async def sleeps() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    bench = Bench(tmp_path, sleeps)
    result = bench.run(step(sleeps, timeout_ms=20))
    assert (outcome_of(result).code, len(cancelled)) == ("ERR_TIMEOUT", 3)
    bench.check(result)


def test_what_a_thread_says_after_its_time_is_not_recorded(tmp_path: Path) -> None:
    LINGER.clear()
    told = threading.Event()

    @skill("late", version="1.0.0", tool_class="read", retry={"max_retries": 0})
    def late(ctx: SkillContext) -> int:
        LINGER.wait()
        ctx.side_effect("too", "late")
        told.set()
        return 1

    bench = Bench(tmp_path, late)
    result = bench.run(step(late, timeout_ms=20, on_error="continue"))
    LINGER.set()
    assert told.wait(20)
    (trace,) = bench.traces(result.run_id)
    assert (outcome_of(result).code, trace.attempts[0].side_effects) == ("ERR_TIMEOUT", [])
    bench.check(result)


def test_a_skill_may_print(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    @skill("prints", version="1.0.0", tool_class="read")
    def prints() -> str:
        print("to one")
        print("to the other", file=sys.stderr)
        return "done"

    bench = Bench(tmp_path, prints)
    assert outcome_of(bench.run(step(prints))).output == "done"
    assert capfd.readouterr() == ("to one\n", "to the other\n")


@pytest.mark.parametrize("in_loop", [False, True], ids=["in a thread", "in the loop"])
def test_a_child_that_a_skill_forks_never_becomes_a_second_runtime(in_loop: bool, tmp_path: Path) -> None:
    children = []

    def forks(ctx: SkillContext) -> int:
        child = os.fork()
        if child:
            children.append(child)
        return child

    bench = Bench(tmp_path, hostile(forks, in_loop=in_loop))
    result = bench.run(step("hostile"), step("hostile"))
    assert result.status == "completed"
    for child in children:
        os.waitpid(child, 0)
    assert [outcome.output for outcome in result.outcomes] == children
    assert len(bench.traces(result.run_id)) == 2
    bench.check(result)


@skill("large", version="1.0.0", tool_class="read")
def large() -> str:
    """As large as it says."""
    return "ab" * 25_000_000


@skill("large_elsewhere", version="1.0.0", tool_class="read", isolation="process")
def large_elsewhere() -> str:
    """The same, over a line between processes."""
    return "ab" * 25_000_000


@pytest.mark.parametrize("large", [large, large_elsewhere], ids=["thread", "process"])
def test_a_response_of_50_mb_is_kept_whole(large: Skill, tmp_path: Path) -> None:
    bench = Bench(tmp_path, large)
    result = bench.run(step(large))
    output = outcome_of(result).output
    assert isinstance(output, str)
    assert (len(output), set(output)) == (50_000_000, {"a", "b"})
    bench.check(result)
