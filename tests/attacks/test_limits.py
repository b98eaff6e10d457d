"""The page of limits says what the code does."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
ROW = re.compile(r"\| (?P<what>[^|]+) \| (?P<most>[0-9,]+)[^|]* \| `(?P<module>[\w.]+)\.(?P<name>\w+)` \|")
ROWS = [match.groupdict() for match in map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines()) if match]


def test_every_row_of_the_tables_is_checked() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(ROWS) == len([line for line in lines if not line.startswith("| what |")])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_limit_on_the_page_is_the_one_in_the_code(row: dict[str, str]) -> None:
    value = getattr(importlib.import_module(row["module"]), row["name"])
    assert int(row["most"].replace(",", "")) == value, row["what"]
