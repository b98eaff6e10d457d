"""Every sample says what is expected of it, line by line, and nothing else is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.lint.check import check
from reenact.lint.findings import RULES, Severity

SAMPLES = Path(__file__).parent / "samples"
EXPECT = re.compile(r"# expect: (RN\d{3}(?: RN\d{3})*)$")


def entries(side: str) -> list[Path]:
    """Files and packages, each a sample of its own."""
    return sorted(path for path in (SAMPLES / side).iterdir() if path.name != "__pycache__")


def expected(sample: Path) -> set[tuple[str, int, str]]:
    files = [sample] if sample.is_file() else sorted(sample.rglob("*.py"))
    return {
        (file.as_posix(), number, rule)
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1)
        if (found := EXPECT.search(line))
        for rule in found[1].split()
    }


@pytest.mark.parametrize("sample", entries("bad"), ids=lambda path: path.name)
def test_a_bad_sample_is_found_out_on_the_lines_that_it_marks(sample: Path) -> None:
    report = check([str(sample)])
    found = {(one.place.file, one.place.line, one.rule) for one in report.findings}
    assert found == expected(sample)
    assert report.exit_code() == 1


@pytest.mark.parametrize("sample", entries("good"), ids=lambda path: path.name)
def test_a_good_sample_is_left_alone(sample: Path) -> None:
    report = check([str(sample)])
    assert [one for one in report.findings if one.severity > Severity.NOTE] == []
    assert report.exit_code() == 0


def test_there_are_samples_enough_and_of_every_rule() -> None:
    assert len(entries("bad")) + len(entries("good")) >= 60
    shown = {rule for sample in entries("bad") for _, _, rule in expected(sample)}
    assert shown == set(RULES) - {"RN005"}


def test_all_samples_together_give_what_each_gives_alone() -> None:
    together = check([str(SAMPLES / "bad")])
    found = {(one.place.file, one.place.line, one.rule) for one in together.findings}
    assert found == {mark for sample in entries("bad") for mark in expected(sample)}


def test_a_branch_that_only_logs_is_a_note_that_fails_nothing_unless_asked() -> None:
    report = check([str(SAMPLES / "good" / "logging_branch_is_a_note.py")])
    assert [(one.rule, one.place.line, one.severity) for one in report.findings] == [
        ("RN101", 8, Severity.NOTE),
        ("RN101", 10, Severity.NOTE),
    ]
    assert report.exit_code(Severity.NOTE) == 1


def test_what_is_known_to_be_an_outcome_is_an_error_and_what_may_be_one_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "def sure(outcome):\n    return outcome.message == 'x'\n\n\ndef maybe(row):\n    return row.message == 'x'\n"
    )
    assert [(one.place.line, one.severity) for one in check([str(file)]).findings] == [
        (2, Severity.ERROR),
        (6, Severity.WARNING),
    ]
