"""The benchmarks run; on sizes too small to say anything about a disk's speed, but enough for the other guards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figure import Figure, Race, race
from benchmarks.plans import workplace

from benchmarks import __main__ as command
from benchmarks import canonical, conversation, disks, in_flight, plan, size
from benchmarks import help as help_


def test_a_plan_is_measured_beside_a_loop_that_commits_the_same_bytes() -> None:
    ours, threaded = plan.measure(steps=45, rounds=1)
    assert ours.value > 0
    assert threaded.value > 0
    assert ours.guard == "", "the ratio measures the disk: a slow one would pass, a fast one fail"


def test_the_raw_loop_commits_one_row_for_each_step() -> None:
    with workplace() as folder:
        rows = plan.stored_rows(folder / "rows.db", 5)
        db = plan.open_raw(folder / "raw.db")
        plan.commit_each(db, rows)
        stored = [body for (body,) in db.execute("SELECT body FROM log ORDER BY id")]
        db.close()
    assert stored == rows
    assert len(rows) == 5


def test_slower_disks_are_measured_by_a_step_and_a_row() -> None:
    step_us, row_us = disks.microseconds(steps=25, rounds=1)
    assert step_us > 0
    assert row_us > 0


def test_what_holds_up_a_disk_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="needs strace"):
        disks.measure()


def test_a_step_is_measured_by_the_file_that_it_leaves() -> None:
    (figure,) = size.measure(steps=300)
    assert figure.unit == "bytes"
    assert figure.most == 4_000
    assert 1_000 < figure.value <= 4_000


def test_a_conversation_is_measured_by_its_values_and_by_the_end_of_its_session() -> None:
    stored, whole, evidence, crowded, closing, memory = conversation.measure(turns=25, calls=60)
    assert (whole.guard, evidence.guard) == ("", ""), "shown, and apart from what is held"
    assert whole.value * 1000 > evidence.value * 25 > 0
    assert (stored.most, crowded.most, closing.most, memory.most) == (3, 3, 5, 100)
    assert 0 < stored.value < 6
    assert crowded.holds
    assert 0 < closing.value < 10
    assert memory.holds


def test_canonical_json_is_measured_beside_another_implementation() -> None:
    typed, generic = canonical.measure(number=200, rounds=9)
    assert typed.least == 15
    assert typed.holds, f"{typed.value:.1f} times as fast"
    assert generic.value > 1


def test_help_is_measured_beside_an_empty_app() -> None:
    ratio, imported = help_.measure(rounds=1)
    assert ratio.value > 0
    assert imported.unit == "ms"


def test_runs_in_flight_are_measured_with_and_without_group_commit() -> None:
    together, layout = in_flight.measure(runs=3, steps=2, rounds=1)
    assert together.value > 0
    assert layout.value > 0


@pytest.mark.parametrize(
    ("figure", "holds", "guard"),
    [
        (Figure(name="a", value=0.5, least=0.5), True, "≥ 0.5 ×"),
        (Figure(name="a", value=0.49, least=0.5), False, "≥ 0.5 ×"),
        (Figure(name="a", value=4000, unit="bytes", most=4000), True, "≤ 4000 bytes"),
        (Figure(name="a", value=4001, unit="bytes", most=4000), False, "≤ 4000 bytes"),
        (Figure(name="a", value=1), True, ""),
    ],
)
def test_a_guard_holds_up_to_its_limit(figure: Figure, holds: bool, guard: str) -> None:
    assert (figure.holds, figure.guard) == (holds, guard)
    assert figure.verdict == ("" if not guard else "holds" if holds else "FAILS")


def test_sides_of_a_race_take_turns_and_are_compared_at_their_best() -> None:
    begun: list[int] = []
    times = race([lambda: begun.append(0) or 2.0, lambda: begun.append(1) or 1.0], 2)
    assert begun == [0, 1, 1, 0]
    assert times.ratio(0, 1) == 2.0
    assert Race(((2.0, 1.0), (9.0, 3.0), (4.0, 1.0))).median_ratio(0, 1) == 3.0


def test_a_guard_that_fails_ends_in_exit_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(size, "measure", lambda: [Figure(name="disk", value=5.0, unit="bytes", most=4.0)])
    assert command.main(["size"]) == 1
    assert "FAILS" in capsys.readouterr().out
    monkeypatch.setattr(size, "measure", lambda: [Figure(name="disk", value=3.0, unit="bytes", most=4.0)])
    assert command.main(["size"]) == 0


def test_a_benchmark_that_there_is_not_is_a_usage_error() -> None:
    home = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nonsense"], cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: no benchmark nonsense; there are plan, size")
