"""The short form of the simulation, and that it sees what it looks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation import world
from tests.simulation.campaign import quiet, some
from tests.simulation.schedule import Template, simulate

SEED = 20261116


@pytest.fixture
def template() -> Iterator[Template]:
    made = Template()
    yield made
    made.close()


def test_nothing_is_lost_or_done_twice_in_any_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    counted = some(60, SEED)
    with capsys.disabled():
        print(f"\n{counted}")
    assert counted.wrong == []
    assert counted.schedules > 40
    assert len(counted.interleavings) == counted.schedules


def missed_within(count: int) -> str:
    """What is wrong with the first schedule in which something is."""
    template = Template()
    try:
        with quiet():
            found = (simulate(SEED + number, template).wrong for number in range(count))
            return next((wrong[0] for wrong in found if wrong), "")
    finally:
        template.close()


def test_it_misses_that_a_write_in_doubt_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the simulation is for: where the rule is taken out, it says so."""
    monkeypatch.setattr(world, "IN_DOUBT", "redispatch")
    assert "was done 2 times" in missed_within(100)


def test_a_schedule_is_the_same_whenever_it_is_asked_for(template: Template) -> None:
    with quiet():
        first, second = simulate(SEED, template), simulate(SEED, template)
    assert (first.interleaving, first.turns, first.log) == (second.interleaving, second.turns, second.log)
