"""Somebody cancels a run that waits to try again: nothing more is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, SkillContext, skill
from reenact.errors import SkillError
from reenact.replay import load_recording
from reenact.runtime import run as run_module
from reenact.values.clock import FixedClock, SystemClock
from tests.replay.recording import mocked
from tests.runtime.running import Bench, ask_to_cancel, outcome_of, step


def failing(attempts: list[int]) -> Any:
    @skill("shaky", version="1.0.0", tool_class="read")
    def shaky(ctx: SkillContext) -> str:
        attempts.append(ctx.attempt)
        raise ConnectionResetError("gone")

    return shaky


class Cancelling(FixedClock):
    """While it sleeps for the second time, somebody cancels the run."""

    bench: Bench

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if len(self.slept) == 2:
            ask_to_cancel(self.bench.store, self.bench.store.find_run("last").run_id)


@pytest.mark.parametrize("backoff_ms", [1, 5_000])
def test_a_run_that_is_cancelled_in_its_back_off_sends_nothing_more(tmp_path: Path, backoff_ms: int) -> None:
    attempts: list[int] = []
    shaky, clock = failing(attempts), Cancelling()
    bench = clock.bench = Bench(tmp_path, shaky, clock=clock)
    result = bench.run(step(shaky, retry={"max_retries": 9, "backoff_base_ms": backoff_ms}), step(shaky))
    outcome = outcome_of(result)
    assert (result.status, outcome.code, attempts) == ("cancelled", "ERR_CANCELLED", [0, 1])
    assert outcome.details is not None
    assert outcome.details["last_code"] == "ERR_CONNECTION_REFUSED"
    bench.check(result)
    recording = load_recording(bench.store, result.run_id)
    for skills in (Registry([shaky]), Registry()):
        replayed = mocked(recording, skills)
        assert replayed.verdict == "matched", replayed.divergence


def test_a_run_that_is_cancelled_with_its_money_gone_replays_as_cancelled(tmp_path: Path) -> None:
    @skill("dear", version="1.0.0", tool_class="read", cost_estimate_cents=4)
    def dear() -> None:
        raise SkillError.of("ERR_HTTP_503", "later")

    clock = Cancelling()
    bench = clock.bench = Bench(tmp_path, dear, clock=clock)
    result = bench.run(step(dear, retry={"max_retries": 9, "backoff_base_ms": 1}), budget_cents=9)
    outcome = outcome_of(result)
    assert (outcome.code, outcome.cost_cents) == ("ERR_CANCELLED", 8)
    recording = load_recording(bench.store, result.run_id)
    for skills in (Registry([dear]), Registry()):
        replayed = mocked(recording, skills)
        assert replayed.verdict == "matched", replayed.divergence


def test_a_long_back_off_is_not_slept_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour, in a clock that really sleeps."""
    monkeypatch.setattr(run_module, "CANCEL_POLL_S", 0.01)
    attempts: list[int] = []
    asked: list[float] = []

    class Asking(SystemClock):
        async def sleep(self, seconds: float) -> None:
            asked.append(seconds)
            ask_to_cancel(bench.store, bench.store.find_run("last").run_id)
            await super().sleep(seconds)

    shaky = failing(attempts)
    bench = Bench(tmp_path, shaky, clock=Asking())
    retry = {"max_retries": 9, "backoff_base_ms": 3_600_000}
    assert bench.run(step(shaky, retry=retry)).status == "cancelled"
    assert (attempts, asked[0] > 1) == ([0], True)
