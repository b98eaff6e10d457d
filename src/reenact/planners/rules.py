"""The rules planner: the first rule whose pattern fits the goal gives the steps, filled with what it caught."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact.planners.making import checked, invalid, make_plan
from reenact.planners.manifest import Manifest
from reenact.planners.planner import DeterminismMode, Document, PlannerError, answered, check_inputs
from reenact.planners.rule_matching import LIMIT_S, TookTooLong, first_match
from reenact.planners.static_file import read_document

# `${name}` in a text, `${name:int}` alone for a whole number.
_SLOT: Final = re.compile(r"\$\{([A-Za-z_]\w*)(:int)?\}")


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`when` is a regular expression, searched in the goal without regard to case; its named groups fill the steps."""

    when: str
    steps: list[dict[str, Any]]


class RuleBook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rules: list[Rule]
    otherwise: list[dict[str, Any]] | None = None
    """Steps for a goal that no rule fits; without them such a goal is refused."""


class RulesPlanner:
    """Plans from a file of rules. Nothing that stands in a goal becomes more than text in a parameter."""

    planner_id = "rules"
    version = "1.0.0"
    determinism: DeterminismMode = "FULL"

    def __init__(self, path: Path) -> None:
        self._path = path

    def plan(self, goal: str, context: Mapping[str, Any], manifest: Manifest) -> Document | PlannerError:
        return answered(lambda: self._plan(goal, context, manifest))

    def _plan(self, goal: str, context: Mapping[str, Any], manifest: Manifest) -> Document | PlannerError:
        refused = check_inputs(goal, context, manifest)
        if refused is not None:
            return refused
        book = read_rules(self._path)
        if isinstance(book, PlannerError):
            return book
        steps = choose(book, goal)
        if isinstance(steps, PlannerError):
            return steps
        return checked(make_plan(f"{self.planner_id}@{self.version}", goal, context, steps), manifest)


def read_rules(path: Path) -> RuleBook | PlannerError:
    document = read_document(path)
    if isinstance(document, PlannerError):
        return document
    try:
        book = msgspec.convert(document, RuleBook)
    except msgspec.ValidationError as error:
        return invalid([f"{path}: {error}"])
    for index, rule in enumerate(book.rules):
        try:
            re.compile(rule.when)
        except re.error as error:
            return invalid([f"{path}: $.rules[{index}].when: {error}"])
    return book


def choose(book: RuleBook, goal: str) -> list[dict[str, Any]] | PlannerError:
    """The steps of the first rule that fits."""
    try:
        found = first_match([rule.when for rule in book.rules], goal)
    except TookTooLong:
        return PlannerError(
            code="PLANNER_INVALID_GOAL",
            message=f"the patterns of the rules took more than {LIMIT_S} s for this goal; say it more shortly",
        )
    if found is not None:
        number, caught = found
        for name, text in caught.items():
            if "{{" in text or "}}" in text:  # in a plan that would be a reference
                return PlannerError(
                    code="PLANNER_INVALID_GOAL", message=f"the {name} in the goal holds braces; say it without them"
                )
        return fill_steps(book.rules[number].steps, caught)
    if book.otherwise is None:
        return PlannerError(
            code="PLANNER_INVALID_GOAL", message="no rule fits this goal; say it as the rules expect it"
        )
    return list(book.otherwise)


def fill_steps(steps: list[dict[str, Any]], caught: Mapping[str, str]) -> list[dict[str, Any]] | PlannerError:
    missing: list[str] = []
    filled = fill(steps, caught, missing)
    if missing:
        return invalid([f"the steps of the rule use ${{{missing[0]}}}, which its pattern did not catch as expected"])
    assert isinstance(filled, list)
    return filled


def fill(value: Any, caught: Mapping[str, str], missing: list[str]) -> Any:
    """The value with every slot filled; what cannot be filled is noted in `missing`."""
    if isinstance(value, str):
        return fill_text(value, caught, missing)
    if isinstance(value, dict):
        return {key: fill(item, caught, missing) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, caught, missing) for item in value]
    return value


def fill_text(text: str, caught: Mapping[str, str], missing: list[str]) -> Any:
    whole = _SLOT.fullmatch(text)
    if whole is not None and whole[2]:
        number = caught.get(whole[1], "")
        if not re.fullmatch(r"-?[0-9]{1,15}", number, re.ASCII):
            missing.append(whole[1])
            return None
        return int(number)

    def put_in(match: re.Match[str]) -> str:
        if match[1] not in caught:
            missing.append(match[1])
        return caught.get(match[1], "")

    return _SLOT.sub(put_in, text)
