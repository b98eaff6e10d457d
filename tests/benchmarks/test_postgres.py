"""The store in PostgreSQL beside others: what could not be measured is never said to hold."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from benchmarks.figure import Figure
from benchmarks.postgres import beside
from benchmarks.postgres.beside import ALONE, DBOS, OURS, RAW, Side

from tests.postgres.server import Server


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_what_could_not_be_measured_holds_nothing() -> None:
    for figure in (Figure(name="a", value=math.nan, least=1), Figure(name="a", value=math.nan, most=1)):
        assert (figure.holds, figure.verdict) == (False, "not measured")


def test_each_side_does_steps_when_it_is_told_to(postgres: Server) -> None:
    for name in (OURS, ALONE, RAW):
        database = f"side_of_{name}".replace(" ", "_")
        postgres.add_database(database)
        with Side(name, postgres.url(database=database)) as side:
            assert side.said == "ready"
            assert side.seconds(1, 2) > 0
            assert side.seconds(2, 2) > 0
        postgres.execute(f"DROP DATABASE {database} WITH (FORCE)")


def test_a_side_that_fails_is_no_measurement() -> None:
    with Side(RAW, "postgresql://127.0.0.1:1/nobody") as side:
        assert math.isnan(side.seconds(1, 2))


def test_a_peer_that_is_not_installed_is_said_to_be_and_never_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "find_spec", lambda _name: None)

    class Quick:
        def seconds(self, _runs: int, _steps: int) -> float:
            return 1.0

    sides: dict[str, Side] = {OURS: Quick(), ALONE: Quick(), RAW: Quick()}  # type: ignore[dict-item]
    figures = [*beside.one_run(sides, 1), *beside.many_runs(sides, 1)]
    assert DBOS not in sides
    assert [(figure.verdict, figure.holds) for figure in figures if "DBOS" in figure.name] == [
        ("not measured", False)
    ] * 2
    assert all("not installed" in figure.note for figure in figures if "DBOS" in figure.name)
