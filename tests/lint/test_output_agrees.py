"""The linter and the decision view agree about what a skill returned."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.contracts.stability import DecisionView
from reenact.errors import DeterminismViolation
from reenact.lint.check import check
from reenact.lint.findings import Severity

OUTCOME = {"status": "success", "code": "OK", "details": {"output": 1}}


@pytest.mark.parametrize("read", ['outcome.details["output"]', 'outcome.details.get("output")', "outcome.output"])
def test_both_refuse_to_decide_on_the_output(read: str, tmp_path: Path) -> None:
    file = tmp_path / "decides.py"
    file.write_text(f"def decide(outcome):\n    if {read} == 1:\n        return True\n")
    (finding,) = check([str(file)]).findings
    assert (finding.severity, "external content" in finding.message) == (Severity.WARNING, True)
    with pytest.raises(DeterminismViolation, match="external content"):
        eval(read, {"outcome": DecisionView(OUTCOME | {"output": 1})})
