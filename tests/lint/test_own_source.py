"""Our own source is held to our own rules; `make lint` runs the same."""

from __future__ import annotations

from pathlib import Path

from reenact.lint.check import check
from reenact.lint.findings import Severity

ROOT = Path(__file__).parents[2]
DECIDES = ("contracts", "journal", "policy", "replay/compare")


def test_no_part_of_it_breaks_a_rule_and_what_decides_is_not_even_in_doubt() -> None:
    found = check([str(ROOT / "src/reenact")]).findings
    assert [str(one) for one in found if one.severity is Severity.ERROR] == []
    places = tuple(str(ROOT / "src/reenact" / part) for part in DECIDES)
    assert [str(one) for one in check(list(places)).findings if one.severity is Severity.WARNING] == []


def test_make_lint_runs_it() -> None:
    told = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "reenact lint --fail-on warning $(DECIDES)" in told
    assert all(part in told[told.index("DECIDES :=") :].splitlines()[0] for part in DECIDES)
