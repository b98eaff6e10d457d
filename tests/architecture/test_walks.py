"""The page about the architecture is true: its files exist, and its walks pass them in the order that it says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "reenact"
PAGE = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
WALKS = ("session_call", "run", "recover", "mock_replay", "verify")


def files_of(walk: str) -> list[str]:
    """What the page says that a walk passes."""
    section = PAGE.partition(f"\n### {walk}: ")[2].partition("\n### ")[0]
    return re.findall(r"^\d+\. `([^`]+)` \w", section, re.MULTILINE)


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE))
    missing = sorted(name for name in named if not (SRC / name).is_file() and not (ROOT / name).is_file())
    assert missing == []
    assert len(named) > 40


def test_every_function_that_the_page_names_is_in_its_file() -> None:
    pairs = re.findall(r"`([a-z_/]+\.py)`, `(?:[A-Za-z]+\.)?([A-Za-z_]+)`", PAGE)
    absent = [pair for pair in pairs if not re.search(rf"\b{pair[1]}\b", (SRC / pair[0]).read_text(encoding="utf-8"))]
    assert absent == []
    assert len(pairs) > 10


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_passes_its_files_in_the_order_of_the_page(walk: str) -> None:
    said = files_of(walk)
    assert len(said) >= 10
    done = subprocess.run(
        [sys.executable, "-m", "tools.walks", "--data", walk], cwd=ROOT, capture_output=True, text=True, check=True
    )
    passed = msgspec.json.decode(done.stdout)["files"]
    assert [name for name in passed if name in said] == said


def test_no_walk_is_longer_than_it_may_be() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.walks", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_every_package_says_what_comes_in_what_goes_out_and_where_to_begin() -> None:
    wanted = (r"\b[Ii]n\b|\btake", r"\b[Oo]ut\b|\bprint", r"\b[Bb]egin")
    short = []
    for path in sorted(SRC.rglob("__init__.py")):
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if path.parent != SRC and not all(re.search(word, said) for word in wanted):
            short.append(str(path.relative_to(SRC)))
    assert short == []
