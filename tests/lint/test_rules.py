"""Each rule's examples show the rule, and the reference page is made from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.lint_page import PAGE, render

from reenact.lint.check import Options, check
from reenact.lint.findings import RULES

# rule → its bad and its good example
EXAMPLES = {name: re.findall(r"```python\n(.*?)```", rule.text, re.DOTALL) for name, rule in RULES.items()}
WITH_EXAMPLES = [(name, *examples) for name, examples in EXAMPLES.items() if examples]


def found(code: str, folder: Path) -> list[str]:
    file = folder / "example.py"
    file.write_text(code, encoding="utf-8")
    return [one.rule for one in check([str(file)]).findings]


@pytest.mark.parametrize(("rule", "bad", "good"), WITH_EXAMPLES, ids=lambda value: value[:5])
def test_the_examples_of_a_rule_are_what_it_speaks_about_and_what_it_leaves_alone(
    rule: str, bad: str, good: str, tmp_path: Path
) -> None:
    rules = found(bad, tmp_path)
    assert rule in rules
    assert set(rules) <= {rule, "RN203"}  # a suppression that is not in force leaves its finding
    assert found(good, tmp_path) == []


def test_only_a_rule_about_size_has_no_example() -> None:
    assert [name for name, examples in EXAMPLES.items() if len(examples) != 2] == ["RN005"]


def test_the_reference_page_is_the_one_that_the_rules_make(root: Path) -> None:
    assert root / "docs/reference/lint.md" == PAGE
    assert PAGE.read_text(encoding="utf-8") == render()


def test_ids_and_names_are_unique_and_in_order() -> None:
    ids = list(RULES)
    assert ids == sorted(set(ids))
    assert len({rule.name for rule in RULES.values()}) == len(ids)


def test_the_code_that_decides_here_decides_on_no_forbidden_field(root: Path) -> None:
    src = root / "src" / "reenact"
    parts = [str(src / name) for name in ("policy", "planners", "skills", "journal")]
    assert check(parts, Options(select=("RN1", "RN201", "RN202", "RN203", "RN204"))).findings == ()


def test_lint_itself_is_clean(root: Path) -> None:
    assert check([str(root / "src" / "reenact" / "lint")]).findings == ()
