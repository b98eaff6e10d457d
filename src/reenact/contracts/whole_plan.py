"""A session's plan with values: what its steps name by commitments, put in the place of the names.

As a session leaves it, its plan repeats nothing that its calls were made with (docs/spec/run_chain.md). Whole, it is a
plan like any other, and can be run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from reenact.errors import PlanError

COMMIT, ERASED = "$commit", "$erased"
COMMITMENT = re.compile(r"[0-9a-f]{64}\Z")
Document = dict[str, object]
ValueOf = Callable[[str, str], object]
"""The value that a step names, by step id and commitment; None where it was erased."""


def whole_plan(document: Document, value_of: ValueOf) -> Document:
    """Arguments that were erased stand there as `{"$erased": …}`; plans of earlier releases are whole as they are."""
    steps = document.get("steps")
    assert isinstance(steps, list)
    return {**document, "steps": [whole_step(step, value_of) for step in steps]}


def whole_step(step: Document, value_of: ValueOf) -> Document:
    whole, step_id = dict(step), str(step["step_id"])
    arguments, key = named(step.get("parameters"), COMMIT), named(step.get("idempotency_key"), COMMIT)
    if arguments is not None:
        found = value_of(step_id, arguments)
        whole["parameters"] = {ERASED: arguments} if found is None else found
    if key is not None:
        whole["idempotency_key"] = value_of(step_id, key)
        if whole["idempotency_key"] is None:
            del whole["idempotency_key"]
    return whole


def named(value: object, mark: str) -> str | None:
    """The commitment in an object that holds it under this mark, and nothing else."""
    found = value.get(mark) if isinstance(value, dict) and len(value) == 1 else None
    return found if isinstance(found, str) and COMMITMENT.match(found) else None


def is_erased(parameters: object) -> bool:
    return named(parameters, ERASED) is not None


def refuse_absent(document: object, source: str) -> None:
    """PlanError where a step lacks the arguments that a session made it with: there is nothing to call it with."""
    steps = document.get("steps") if isinstance(document, dict) else None
    for step in steps if isinstance(steps, list) else []:
        parameters = step.get("parameters") if isinstance(step, dict) else None
        if is_erased(parameters):
            raise PlanError(
                f"{source}: the arguments of step {step.get('step_id')} were erased; put others in their place"
            )
        if named(parameters, COMMIT) is not None:
            raise PlanError(
                f"{source}: step {step.get('step_id')} names its arguments and does not hold them: whole, this plan "
                "would be too large; replay its session instead"
            )
