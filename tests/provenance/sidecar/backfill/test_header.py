"""How a report's markdown is read, with the original's rules and in bounded time."""

from __future__ import annotations

import time

import pytest

from reenact.provenance.sidecar.backfill_header import Title, read_conditions, read_header, read_models


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# ahd eval · tok · 2026-05-01T00:00:00Z", Title("eval-live", "tok", "2026-05-01T00:00:00Z")),
        ("# ahd eval-image · tok · x", Title("eval-image", "tok", "x")),
        ("# ahd critique · two words · x y", Title("critique", "two words", "x")),
        ("# ahd eval tok · x", Title("eval-live", "tok", "x")),
        ("# ahd eval·tok · x", None),
        ("# ahd eval · tok", None),
        ("# ahd evaluation · tok · x", None),
        (" # ahd eval · tok · x", None),
        ("# ahd eval · tok ·", None),
        ("# ahd eval · to\nk · x", None),
    ],
)
def test_the_title_names_kind_token_and_instant(line: str, title: Title | None) -> None:
    assert read_header(f"intro\r{line}\n").title == title


def test_the_first_title_that_fits_counts() -> None:
    text = "# ahd eval · broken\n\n# ahd critique · tok · x\n\n# ahd eval · other · y\n"
    assert read_header(text).title == Title("critique", "tok", "x")


def test_samples_are_the_line_or_the_sum_of_the_tables_cells() -> None:
    assert read_header("- Samples per cell: **30**\n| a (n=2) | b (n=3) |").samples == 30
    assert read_header("| a (n=2) | b (n=3) |").samples == 5
    assert read_header("nothing").samples == 0


@pytest.mark.parametrize(
    ("before", "seen"), [("  ", True), ("\n\n", True), ("x\n\t", True), ("", False), ("x\n", False), ("x ", False)]
)
def test_a_model_is_listed_where_white_space_begins_a_line_before_its_dash(before: str, seen: bool) -> None:
    text = f"{before}- `m` (p) · spec `s`\n"
    assert read_models(text) == ((("s", "p"),) if seen else ())


def test_flush_left_models_are_seen_when_asked_for() -> None:
    text = "- Models:\n- `m` (p) · spec `s`\n- `n` (q) · spec `t`\n"
    assert read_models(text, flush_left=True) == (("s", "p"), ("t", "q"))


def test_conditions_stand_before_their_counts() -> None:
    assert read_conditions("| rule | raw (n=10) | compiled (n=11) | raw (n=3) |") == ("raw", "compiled")


@pytest.mark.parametrize(
    "text",
    [
        "# ahd eval" + " " * 500_000,
        "# ahd eval ·\n" * 50_000,
        "\n" * 1_000_000 + "- `m` (",
        "- `a` (" * 50_000,
        "- `" * 100_000,
        ("-" + " " * 98) * 10_000,
        "(n=" * 300_000,
    ],
)
def test_a_hostile_report_is_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    read_header(text)
    read_models(text, flush_left=True)
    read_conditions(text)
    assert time.process_time() - started < 10
