"""The short form of the simulation, and that it sees what it looks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


def test_a_schedule_is_the_same_whenever_it_is_asked_for(template: Template) -> None:
    with quiet():
        first, second = simulate(SEED, template), simulate(SEED, template)
    assert (first.interleaving, first.turns, first.log) == (second.interleaving, second.turns, second.log)
