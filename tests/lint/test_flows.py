"""Short ways from a field to a decision, one after the other in one file, each checked alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reenact.lint.check import check
from reenact.lint.findings import Severity


def cases(name: str) -> dict[str, str]:
    text = (Path(__file__).parent / "samples" / name).read_text(encoding="utf-8")
    return dict(part.split("\n", 1) for part in re.split(r"^# --- ", text, flags=re.MULTILINE)[1:])


CASES = cases("flows.txt")
NOT_FOLLOWED = cases("not_followed.txt")
EXPECT = re.compile(r"# expect: (RN\d{3})$")


@pytest.mark.parametrize("code", CASES.values(), ids=CASES.keys())
def test_a_flow_is_followed_to_the_line_that_it_marks(code: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(code, encoding="utf-8")
    marked = [
        (number, found[1]) for number, line in enumerate(code.split("\n"), start=1) if (found := EXPECT.search(line))
    ]
    found = [(one.place.line, one.rule) for one in check([str(file)]).findings if one.severity > Severity.NOTE]
    assert found == marked


@pytest.mark.parametrize("code", NOT_FOLLOWED.values(), ids=NOT_FOLLOWED.keys())
def test_what_the_page_says_is_not_followed_is_not(code: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(code, encoding="utf-8")
    assert check([str(file)]).findings == ()


def test_there_are_flows_that_lead_nowhere_too() -> None:
    assert len(CASES) >= 50
    assert [name for name, code in CASES.items() if "# expect" not in code]
