"""Building a plan document from steps: the goal, the host's context, and an id that says where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.planners.checking import AllowedSecrets, problems
from reenact.planners.manifest import Manifest
from reenact.planners.planner import Document, PlannerError
from reenact.values.digest import digest

DEFAULT_AGENT = "agent"


def make_plan(planner: str, goal: str, context: Mapping[str, Any], steps: list[Any]) -> Document:
    """The document. The same planner, goal, context and steps give the same id."""
    own = {key: value for key, value in context.items() if key != "agent_id"}
    agent_id = context.get("agent_id") or DEFAULT_AGENT
    seed = {"planner": planner, "goal": goal, "context": own, "steps": steps}
    plan: Document = {"plan_id": f"plan-{digest(seed)[:16]}", "agent_id": agent_id, "goal": goal, "steps": steps}
    return {**plan, "context": own} if own else plan


def checked(
    document: Document, manifest: Manifest, *, secrets: AllowedSecrets | None = None, own_words: bool = False
) -> Document | PlannerError:
    """The document, or why it is no plan."""
    found = problems(document, manifest, secrets=secrets, own_words=own_words)
    return invalid(found) if found else document


def invalid(found: list[str]) -> PlannerError:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return PlannerError(code="PLANNER_INVALID_PLAN", message=f"{found[0]}{more}", details={"problems": found[:50]})
