"""A text on which a regular expression takes the square of its length, or for ever: a tool, a server or a plan sends
it, and the process matches until it is killed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.attacks.pattern_table import AT_RUN_TIME, BY_HAND, USED
from tests.attacks.patterns import Attack, attacks_on, is_linear, patterns

FOUND = {found.key: found for found in patterns()}
LISTED = {f"{file}:{name}": methods for file, names in USED.items() for name, methods in names.items()}
BY_OTHERS = {key: pattern for key, pattern in AT_RUN_TIME.items() if pattern is None}


def test_each_pattern_in_the_source_has_a_line_in_the_table() -> None:
    """A new pattern on foreign text is held against adversarial input, or does not come in."""
    missing = [f"{key} (line {FOUND[key].line})" for key in FOUND if key not in LISTED]
    assert not missing, (
        f"no line in tests/attacks/pattern_table.py for {', '.join(missing)}: add `name: methods` under its file, and "
        "to BY_HAND what hurts it most; if the pattern is not linear, make its parts possessive (*+) and disjoint"
    )


def test_the_table_names_only_patterns_that_are_there() -> None:
    assert sorted(LISTED) == sorted(key for key in LISTED if key in FOUND)


@pytest.mark.parametrize("key", sorted(set(LISTED) - set(BY_OTHERS)))
def test_a_pattern_takes_ten_times_as_long_for_ten_times_the_text(key: str) -> None:
    written = AT_RUN_TIME.get(key)
    pattern: re.Pattern[Any] | None = FOUND[key].value if written is None else re.compile(written)
    assert pattern is not None, f"{key}: put the pattern as it looks at run time into AT_RUN_TIME"
    assert not slow(pattern, LISTED[key], BY_HAND.get(key, []))


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\{\{\s*([^{}]+?)\s*\}\}", "sub"),
        (r"[^\W\d][\w./@+=-]*(?:[ :#]?[\w./@+=-]+)*", "fullmatch"),
        (r"unknown field `(.*)` - at `\$", "search"),
        (r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", "sub"),
        (r"(a|b|ab)*c", "match"),
    ],
)
def test_patterns_that_are_not_linear_are_noticed(pattern: str, method: str) -> None:
    """Those that once stood in the source, and a textbook's."""
    assert slow(re.compile(pattern), method, [])


def slow(pattern: re.Pattern[Any], methods: str, by_hand: list[Attack]) -> tuple[str, Attack] | None:
    """The first text that a method is too slow on."""
    attacks = [*by_hand, *attacks_on(pattern)]
    tried = ((method, attack) for method in methods.split() for attack in attacks)
    return next((each for each in tried if not is_linear(pattern, *each)), None)
