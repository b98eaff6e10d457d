"""Each rule's examples show the rule, and the reference page is made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.lint.check import Options, check
from reenact.lint.reference import reference
from reenact.lint.rules import RULES, Rule

WITH_EXAMPLES = [rule for rule in RULES.values() if rule.bad]


def found(code: str, folder: Path) -> list[str]:
    file = folder / "example.py"
    file.write_text(code, encoding="utf-8")
    return [one.rule for one in check([str(file)]).findings]


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.id)
def test_the_bad_example_of_a_rule_is_what_the_rule_speaks_about(rule: Rule, tmp_path: Path) -> None:
    rules = found(rule.bad, tmp_path)
    assert rule.id in rules
    assert set(rules) <= {rule.id, "RN203"}  # a suppression that is not in force leaves its finding


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.id)
def test_the_good_example_of_a_rule_is_clean(rule: Rule, tmp_path: Path) -> None:
    assert found(rule.good, tmp_path) == []


def test_only_a_rule_about_size_has_no_example() -> None:
    assert [rule.id for rule in RULES.values() if not rule.bad] == ["RN005"]


def test_the_reference_page_is_the_one_that_the_rules_make(root: Path) -> None:
    assert (root / "docs" / "reference" / "lint.md").read_text(encoding="utf-8") == reference()


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
