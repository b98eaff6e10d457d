"""A dispatch in doubt may have cost what it reserved: every budget counts it, and it is not sent again beyond one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, RunResult, Runtime, skill
from reenact.record.reader import RunReader
from reenact.skills.skill import Skill
from tests.crash.harness import in_child
from tests.runtime.running import Bench, outcome_of, step

OK, TOO_MUCH = "OK", "ERR_BUDGET_EXCEEDED"
CENT = 10_000_000_000


@skill("costly", version="1.0.0", tool_class="read", cost_estimate_cents=4)
async def costly(folder: str) -> None:
    """Costs four cents, and leaves a line."""
    with (Path(folder) / "sent").open("a") as lines:
        lines.write("costly\n")


@skill("costly_model", version="1.0.0", tool_class="read", cost_model="tokens")
async def costly_model(folder: str, model: str = "m", max_tokens: int = 4) -> None:
    """The same, on a model."""
    with (Path(folder) / "sent").open("a") as lines:
        lines.write("costly_model\n")


SKILLS: tuple[Skill, ...] = (costly, costly_model)
CENT_A_TOKEN: dict[str, Any] = {"prices": {"models": {"m": {"input": "0", "output": str(CENT)}}}}


class Killed:
    """A run of one step that is killed when its call has been sent, as often as is said, and goes on after that."""

    def __init__(self, folder: Path, kills: int, skill: Skill = costly, **context: Any) -> None:
        self.folder, self.skill, self.context = folder, skill, context
        self.die(self.run)
        for _ in range(kills - 1):
            self.die(lambda bench: bench.runtime.recover())
        self.bench = Bench(folder, *SKILLS)

    def run(self, bench: Bench) -> RunResult:
        return bench.run(step(self.skill, {"folder": str(self.folder)}), **self.context)

    def die(self, work: Any) -> None:
        """Where nothing is sent there is nothing to die of."""
        in_child(lambda: work(Bench(self.folder, *SKILLS)), crash_at="after_dispatch")

    def end(self) -> tuple[str, int]:
        """(code, cents) at the end; the evidence holds, and a replay agrees, with the skills' code and without."""
        self.bench.runtime.recover()
        run_id = self.bench.store.runs()[-1].run_id
        self.bench.check(run_id)
        for skills in (Registry(SKILLS), Registry()):
            replayed = Runtime(self.bench.store, skills=skills).replay(run_id)
            assert replayed.verdict == "matched", replayed.divergence
        (recorded,) = RunReader(self.bench.store, run_id).steps()
        outcome = recorded.outcome()
        return outcome.code, outcome.cost_cents

    @property
    def sent(self) -> int:
        return len((self.folder / "sent").read_text().splitlines())

    @property
    def day(self) -> dict[str, int]:
        return self.bench.store.spent(self.bench.runtime.clock.timestamp()[:10], "agent")


def limits(cents: int) -> list[dict[str, Any]]:
    return [{"budget_cents": cents}, {"budget": {"per_day_cents": cents}}, {"budget": {"per_step_cents": cents}}]


@pytest.mark.parametrize("context", limits(4))
def test_what_may_have_cost_all_there_was_is_not_sent_again(context: dict[str, Any], tmp_path: Path) -> None:
    killed = Killed(tmp_path, 3, **context)
    assert killed.end() == (TOO_MUCH, 4)
    assert killed.sent == 1
    assert killed.day == {"": 4 * CENT}


@pytest.mark.parametrize("context", limits(9))
def test_it_is_sent_again_as_often_as_there_is_money_for(context: dict[str, Any], tmp_path: Path) -> None:
    killed = Killed(tmp_path, 3, **context)
    assert killed.end() == (TOO_MUCH, 8)
    assert killed.sent == 2
    assert killed.day == {"": 8 * CENT}


@pytest.mark.parametrize("context", limits(8))
def test_one_dispatch_in_doubt_leaves_the_money_for_another(context: dict[str, Any], tmp_path: Path) -> None:
    killed = Killed(tmp_path, 1, **context)
    assert killed.end() == (OK, 8)
    assert killed.sent == 2


def test_a_model_is_charged_for_doubt_as_well(tmp_path: Path) -> None:
    context = {**CENT_A_TOKEN, "budget": {"per_model_cents": {"m": 9}}}
    killed = Killed(tmp_path, 3, costly_model, **context)
    assert killed.end() == (TOO_MUCH, 8)
    assert killed.day == {"m": 8 * CENT}


def test_a_soft_budget_lets_it_pass_and_counts_it(tmp_path: Path) -> None:
    killed = Killed(tmp_path, 2, budget={"per_day_cents": 4, "mode": "soft"})
    assert killed.end() == (OK, 12)
    assert killed.day == {"": 12 * CENT}


def test_the_next_run_of_the_agent_counts_what_was_in_doubt(tmp_path: Path) -> None:
    killed = Killed(tmp_path, 1, budget={"per_day_cents": 11})
    assert killed.end() == (OK, 8)
    assert outcome_of(killed.run(killed.bench)).code == TOO_MUCH


def test_a_replay_spends_nothing(tmp_path: Path) -> None:
    killed = Killed(tmp_path, 1)
    assert killed.end() == (OK, 8)
    assert killed.day == {"": 8 * CENT}
