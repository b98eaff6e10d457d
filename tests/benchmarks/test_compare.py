"""Two versions are compared by what one more step costs each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import compare

ROUNDS = [
    ({"plan": 100.0, "session": 200.0}, {"plan": 104.0, "session": 230.0}),
    ({"plan": 200.0, "session": 400.0}, {"plan": 210.0, "session": 430.0}),
    ({"plan": 100.0, "session": 200.0}, {"plan": 150.0, "session": 214.0}),
]


def test_a_step_costs_what_many_cost_more_than_few() -> None:
    costs = {("plan", 50): 1_500.0, ("plan", 150): 2_500.0, ("session", 50): 1_700.0, ("session", 150): 3_700.0}
    assert compare.per_step(costs) == {"plan": 10.0, "session": 20.0}


def test_the_middle_one_of_the_rounds_is_held_against_the_limit() -> None:
    plan, session = compare.figures(ROUNDS, "instructions")
    assert (plan.value, plan.holds) == (1.05, True)
    assert (session.value, session.holds) == (1.075, False)
    assert plan.note == "150 beside 100 instructions, 3 rounds"


def test_sides_take_turns_and_who_begins_changes() -> None:
    begun: list[str] = []

    def measure(sources: Path, sizes: tuple[int, int]) -> compare.Costs:
        begun.append(sources.name)
        return {"plan": float(sizes[1]), "session": float(len(begun))}

    way = compare.Way("steps", (1, 2), 2, measure)
    rounds = list(compare.in_turns(way, (Path("before"), Path("now")), 2, (1, 2)))
    assert begun == ["before", "now", "now", "before"]
    assert [(before["session"], now["session"]) for before, now in rounds] == [(1.0, 2.0), (4.0, 3.0)]


def test_the_total_is_read_from_what_callgrind_writes(tmp_path: Path) -> None:
    (tmp_path / "7").write_text("# callgrind format\nevents: Ir\nsummary: 12\n\ntotals: 2123539922\n", encoding="utf-8")
    assert compare.total(tmp_path / "7") == 2_123_539_922


def test_work_is_done_with_the_sources_that_are_named() -> None:
    done = list(compare.work(compare.HOME / "src", (1, 2)))
    assert [(kind, size) for kind, size, _, _ in done] == [("plan", 1), ("plan", 2), ("session", 1), ("session", 2)]
    assert all(float(cpu_s) > 0 for *_, cpu_s in done)


def test_a_comparison_ends_in_exit_1_above_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = iter([100.0, 106.0])

    def measure(sources: Path, sizes: tuple[int, int]) -> compare.Costs:
        return dict.fromkeys(compare.NAMES, next(costs))

    monkeypatch.setattr(compare, "check_out", lambda commit, folder: folder)
    monkeypatch.setattr(compare, "CPU", compare.CPU._replace(measure=measure))
    assert command.main(["compare", "HEAD", "--cpu", "--rounds", "1"]) == 1
    assert "1.060 ×  ≤ 1.05 ×  FAILS  106 beside 100 µs of CPU" in capsys.readouterr().out


def test_a_commit_that_there_is_not_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compare, "HOME", tmp_path)
    assert command.main(["compare", "no-such-commit"]) == 2
    assert capsys.readouterr().err.startswith("error: git has no commit no-such-commit with sources")
