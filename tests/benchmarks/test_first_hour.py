"""The first hour: our agent needs no more than the others, goes on where it was killed, and says what nobody knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.first_hour.count import HERE, PROGRAMS, concepts, lines, source_of


def counted(library: str) -> tuple[int, int]:
    source = source_of(library)
    return lines(source), len(concepts(source, library))


@pytest.mark.parametrize("other", PROGRAMS[1:])
def test_ours_needs_no_more_lines_and_no_more_names(other: str) -> None:
    ours, theirs = counted("reenact"), counted(other)
    assert ours[0] <= theirs[0]
    assert ours[1] <= theirs[1]


def test_the_page_says_what_is_counted() -> None:
    page = (HERE / "README.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| \[\w+\]\(with_(\w+)\.py\) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert [(library, int(code), int(names)) for library, code, names in said] == [
        (library, *counted(library)) for library in PROGRAMS
    ]


def test_names_are_those_of_the_library_alone() -> None:
    source = (
        '"""What it does."""\n'
        "import shop\n"
        "from lib.part import Thing, other as another  # a comment is no line\n\n"
        "# nor is this\n"
        'words = {"key": {"inner": 1}}\n'
        "with Thing(size=1).open(words) as opened:\n"
        "    made = another(shop.tool, opened.value)\n"
        '    print(made.result, {"mine": made}["mine"], shop.tool(own=2))\n'
    )
    assert {*concepts(source, "lib")} == {"Thing", "other", "open", "size", "value", "key", "inner", "result"}
    assert lines(source) == 6


def start(folder: Path, goes_wrong: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HERE / "with_reenact.py")], cwd=folder, env={**os.environ, "FIRST_HOUR": goes_wrong},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def written(folder: Path, file: str) -> list[str]:
    path = folder / file
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def test_killed_after_the_charge_it_goes_on(tmp_path: Path) -> None:
    assert start(tmp_path, "later").returncode == -9
    for _ in range(2):
        done = start(tmp_path)
        assert (done.returncode, done.stdout) == (0, "receipt of order 42\n"), done.stderr
    assert written(tmp_path, "charges.txt") == ["order 42: 1999 cents"]
    assert written(tmp_path, "mails.txt") == ["kim@example.com: receipt of order 42"]


@pytest.mark.parametrize(("goes_wrong", "code"), [("killed", -9), ("cut", 0)])
def test_where_the_answer_of_the_charge_is_lost_it_says_that_nobody_knows(
    tmp_path: Path, goes_wrong: str, code: int
) -> None:
    assert start(tmp_path, goes_wrong).returncode == code
    for _ in range(2):
        done = start(tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Do not call this again. It was sent and its answer is lost")
        assert "it may or may not have happened" in done.stdout
    assert written(tmp_path, "charges.txt") == ["order 42: 1999 cents"]
    assert written(tmp_path, "mails.txt") == []
