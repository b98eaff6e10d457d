"""The field stability tables decide what is compared: every row of them, by mutation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import msgspec
import pytest

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.stability import (
    FORBIDDEN_FIELDS,
    OUTCOME_FIELDS,
    PLAN_FIELDS,
    ForbiddenField,
    OutcomeField,
    PlanField,
)
from reenact.record.reader import RecordedStep
from reenact.replay.breakers import find_breakers
from reenact.replay.compare.behaviour import ASPECT_OF_FIELD, behaviour_of
from reenact.replay.compare.compare import Comparison, compare
from tests.replay.compare.mutating import recording

STEP = "fetch"


class Retold(RecordedStep):
    """A recorded step whose outcome says something else."""

    told: ClassVar[dict[str, Any]] = {}

    def outcome(self) -> StructuredOutcome:
        return msgspec.convert(self.told, StructuredOutcome)


def compared_with(change: dict[str, Any]) -> Comparison:
    """The recorded step held against itself with `change` (dotted paths) in its outcome."""
    original = recording().steps[STEP]
    outcome = msgspec.to_builtins(original.outcome())
    for path, value in change.items():
        target = outcome
        *way, last = path.split(".")
        for name in way:
            target = target.setdefault(name, {})
        target[last] = value
    retold = Retold(original.trace, original.commits, original.payloads)
    type(retold).told = outcome
    return compare([behaviour_of(original)], [behaviour_of(retold)])


OTHER: dict[str, Any] = {
    "run_id": "01941f29-7c00-7000-8000-00000000ffff",
    "step_id": "another",
    "status": "partial",
    "code": "OK_OTHER",
    "message": "in other words",
    "details": {"anything": "else"},
    "cost_cents": 4711,
    "latency_ms": 4711,
    "retryable": True,
    "side_effects": [],
    "metadata.skill_id": "another",
    "metadata.skill_version": "9.9.9",
    "observability.trace_id": "01941f29-7c00-7000-8000-00000000eeee",
    "observability.span_id": "b7ad6b7169203331",
    "observability.backend_retries": 7,
    "timestamp": "2031-01-01T00:00:00.000Z",
}


def test_nothing_changed_is_a_match() -> None:
    assert compared_with({}).matches


def test_every_row_of_the_outcome_table_is_tried() -> None:
    assert set(OTHER) == {row.field for row in OUTCOME_FIELDS}
    assert set(ASPECT_OF_FIELD) == {row.field for row in OUTCOME_FIELDS if row.affects_replay_assertion == "YES"}


@pytest.mark.parametrize("row", OUTCOME_FIELDS, ids=lambda row: row.field)
def test_a_changed_field_of_the_outcome_counts_exactly_as_its_row_says(row: OutcomeField) -> None:
    comparison = compared_with({row.field: OTHER[row.field]})

    if row.affects_replay_assertion == "NO":
        assert comparison.matches
    else:
        assert comparison.first is not None
        assert comparison.first.aspect == ASPECT_OF_FIELD[row.field]
        assert [aspect for aspect, verdict in comparison.aspects.items() if verdict == "mismatch"] == [
            ASPECT_OF_FIELD[row.field]
        ]


@pytest.mark.parametrize("row", FORBIDDEN_FIELDS, ids=lambda row: row.field)
def test_a_forbidden_field_never_changes_the_verdict(row: ForbiddenField) -> None:
    path = {"trace_id": "observability.trace_id", "span_id": "observability.span_id"}.get(row.field, row.field)
    value = OTHER.get(path, {"whatever": ["came", "back"]})

    assert compared_with({path: value}).matches


SIDE_EFFECTS = {
    "another count": lambda effects: effects[:-1],
    "another type": lambda effects: [{**effects[0], "type": "webhook_sent"}, *effects[1:]],
    "another target": lambda effects: [*effects[:-1], {**effects[-1], "target": "elsewhere.example"}],
    "another order": lambda effects: list(reversed([{**effects[0], "type": "first"}, *effects[1:]])),
}


@pytest.mark.parametrize("case", SIDE_EFFECTS)
def test_side_effects_differ_by(case: str) -> None:
    effects = msgspec.to_builtins(recording().steps[STEP].outcome())["side_effects"]
    comparison = compared_with({"side_effects": SIDE_EFFECTS[case](effects)})  # type: ignore[no-untyped-call]

    assert comparison.first is not None
    assert comparison.first.aspect == "side_effects"


def test_times_of_side_effects_are_not_compared() -> None:
    effects = msgspec.to_builtins(recording().steps[STEP].outcome())["side_effects"]
    later = [{**effect, "timestamp": "2031-01-01T00:00:00.000Z"} for effect in effects]

    assert compared_with({"side_effects": later}).matches


PLAN_CHANGES: dict[str, Any] = {
    "plan_id": lambda plan: plan.update(plan_id="another"),
    "agent_id": lambda plan: plan.update(agent_id="another"),
    "goal": lambda plan: plan.update(goal="another"),
    "steps[].step_id": lambda plan: plan["steps"][3].update(step_id="another"),
    "steps[].skill_id": lambda plan: plan["steps"][3].update(skill_id="another"),
    "steps[].skill_version": lambda plan: plan["steps"][3].update(skill_version="9.9.9"),
    "steps[].parameters": lambda plan: plan["steps"][3]["parameters"].update(value="another"),
    "context.budget_cents": lambda plan: plan["context"].update(budget_cents=1),
    "context.allowed_skills": lambda plan: plan["context"].update(allowed_skills=["reader"]),
    "created_at": lambda plan: plan.update(created_at="2031-01-01T00:00:00.000Z"),
}


@pytest.mark.parametrize("row", PLAN_FIELDS, ids=lambda row: row.field)
def test_a_changed_field_of_the_plan_is_named_exactly_as_its_row_says(row: PlanField) -> None:
    changed = deepcopy(recording().document)
    PLAN_CHANGES[row.field](changed)
    named = find_breakers(recording().document, changed, None)

    if row.deterministic == "NO":
        assert named == []
    else:
        last = row.field.replace("[]", "[3]").removeprefix("context.")
        assert any(breaker.where.endswith(last) or "per_run_cents" in breaker.where for breaker in named)
