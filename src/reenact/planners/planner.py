"""The planner interface: it answers with a plan or with a `PlannerError`, and never raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from reenact.contracts.plan import plan_from_document
from reenact.errors import UsageError
from reenact.planners.manifest import Manifest
from reenact.values.canonical import canonicalize

Document = dict[str, Any]
DeterminismMode = Literal["FULL", "STRUCTURAL", "NONE"]
"""FULL: the same inputs give the same plan. STRUCTURAL: the same skills in the same order. NONE: no promise."""

PlannerCode = Literal[
    "PLANNER_RATE_LIMITED",
    "PLANNER_CONTEXT_TOO_LONG",
    "PLANNER_INVALID_GOAL",
    "PLANNER_NO_SKILLS_AVAILABLE",
    "PLANNER_GENERATION_FAILED",
    "PLANNER_INVALID_PLAN",
    "PLANNER_TIMEOUT",
]
LONGEST_GOAL: Final = 20_000
RETRYABLE: Final = frozenset({"PLANNER_RATE_LIMITED", "PLANNER_TIMEOUT"})


class PlannerError(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no plan: a value, to be looked at and not caught."""

    code: PlannerCode
    message: str
    details: dict[str, Any] = {}

    @property
    def retryable(self) -> bool:
        """Whether asking again later may help, with nothing changed."""
        return self.code in RETRYABLE


class Planner(Protocol):
    """Makes plans. `context` is what the plan's context shall be; a planner adds nothing to it and takes nothing away.

    `context` may also hold `agent_id`, for whom the plan is made.
    """

    @property
    def planner_id(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def determinism(self) -> DeterminismMode: ...

    def plan(self, goal: str, context: Mapping[str, Any], manifest: Manifest) -> Document | PlannerError:
        """A plan document that fits the manifest, not yet pinned; or why there is none."""


def check_inputs(goal: object, context: Mapping[str, Any], manifest: Manifest) -> PlannerError | None:
    """What no planner can work with."""
    if not isinstance(goal, str) or not goal.strip():
        return PlannerError(code="PLANNER_INVALID_GOAL", message="the goal is empty; say what shall be done")
    if len(goal) > LONGEST_GOAL:
        return PlannerError(
            code="PLANNER_INVALID_GOAL", message=f"the goal has {len(goal)} characters; at most {LONGEST_GOAL} are read"
        )
    if not manifest:
        return PlannerError(
            code="PLANNER_NO_SKILLS_AVAILABLE",
            message="there is no skill that this plan may use; look at allowed_skills and at `reenact skills`",
        )
    own = {key: value for key, value in context.items() if key != "agent_id"}
    try:
        plan_from_document({"plan_id": "p", "agent_id": "a", "steps": [], "context": own}, source="context")
        canonicalize({"goal": goal, "context": own})
    except UsageError as error:
        return PlannerError(code="PLANNER_INVALID_PLAN", message=str(error), details={"problems": [str(error)]})
    return None


def answered(make: Callable[[], Document | PlannerError]) -> Document | PlannerError:
    """What `make` answers; whatever it raises is a value too."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001  # a planner never raises
        return PlannerError(
            code="PLANNER_GENERATION_FAILED",
            message=f"the planner failed with {type(error).__name__}",
            details={"error": type(error).__name__},
        )
