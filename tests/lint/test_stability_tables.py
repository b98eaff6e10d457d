"""The tables are the specification's, word by word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.contracts.stability import FORBIDDEN_FIELDS, OUTCOME_FIELDS, PLAN_FIELDS, why_forbidden


def table_under(text: str, heading: str) -> list[tuple[str, ...]]:
    """The rows of the first markdown table after a heading, without its head."""
    after = text[text.index(f"{heading}\n") :]
    lines = after[after.index("|") :].split("\n\n")[0].splitlines()
    rows = [tuple(cell.strip().strip("`") for cell in line.strip("|").split("|")) for line in lines]
    assert re.fullmatch(r"[-|]+", lines[1])
    return rows[2:]


def specification(shared: Path) -> str:
    return (shared / "seeds" / "000_a2f8369d6a80327c.txt").read_text(encoding="utf-8")


def test_the_outcome_table_equals_the_specification(shared: Path) -> None:
    assert [tuple(row) for row in OUTCOME_FIELDS] == table_under(
        specification(shared), "### StructuredOutcome Field Stability"
    )


def test_the_plan_table_equals_the_specification(shared: Path) -> None:
    assert [tuple(row) for row in PLAN_FIELDS] == table_under(specification(shared), "### Plan Field Stability")


def test_the_forbidden_fields_equal_the_specification(shared: Path) -> None:
    assert [tuple(row) for row in FORBIDDEN_FIELDS] == table_under(
        specification(shared), "## Forbidden Fields (MUST NOT Affect Determinism)"
    )


def test_every_row_that_is_not_deterministic_is_forbidden_and_every_other_is_not() -> None:
    for row in OUTCOME_FIELDS:
        assert (why_forbidden(row.field) is not None) == (row.deterministic == "NO"), row.field


def test_no_forbidden_field_affects_a_replay_assertion() -> None:
    for row in OUTCOME_FIELDS:
        if why_forbidden(row.field) is not None:
            assert row.affects_replay_assertion == "NO", row.field


@pytest.mark.parametrize("row", FORBIDDEN_FIELDS, ids=lambda row: row.field)
def test_a_forbidden_field_says_why(row: tuple[str, str]) -> None:
    assert why_forbidden(row[0]) == row[1]


@pytest.mark.parametrize(
    "path",
    [
        "side_effects[].timestamp",
        "observability.span_id",
        "details.error.message",
        "details.calls[].latency_ms",
    ],
)
def test_a_bare_forbidden_name_is_forbidden_at_any_depth(path: str) -> None:
    assert why_forbidden(path) is not None


@pytest.mark.parametrize("path", ["metadata.owner", "observability.node", "weather", "side_effects[].bytes"])
def test_a_field_that_no_table_lists_is_not_handed_out(path: str) -> None:
    assert "no stability table" in (why_forbidden(path) or "")


@pytest.mark.parametrize(
    "path", ["details", "details.upstream_status", "metadata", "side_effects", "side_effects[].type"]
)
def test_what_the_tables_promise_is_handed_out(path: str) -> None:
    assert why_forbidden(path) is None
