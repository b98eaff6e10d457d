"""The static planner: a plan that somebody wrote, with the goal and the context of the moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reenact.errors import UsageError
from reenact.planners.making import checked, invalid
from reenact.planners.manifest import Manifest
from reenact.planners.planner import DeterminismMode, Document, PlannerError, answered, check_inputs
from reenact.values.bounds import read_file
from reenact.values.canonical import parse_json


class StaticPlanner:
    """The same plan for every goal. What its file says about the context goes before what the caller says."""

    planner_id = "static"
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
        document = read_document(self._path)
        if isinstance(document, PlannerError):
            return document
        given = {key: value for key, value in context.items() if key != "agent_id"}
        merged = {**document, "goal": goal, "context": {**given, **as_object(document.get("context"))}}
        if context.get("agent_id"):
            merged["agent_id"] = context["agent_id"]
        return checked(merged, manifest)


def read_document(path: Path) -> Document | PlannerError:
    """The JSON object in a file."""
    try:
        document = parse_json(read_file(path), what=str(path))
    except OSError as error:
        return PlannerError(
            code="PLANNER_GENERATION_FAILED",
            message=f"{path}: {error.strerror or 'it cannot be read'}; name another file",
        )
    except UsageError as error:
        return invalid([f"{path}: {error}"])
    return document if isinstance(document, dict) else invalid([f"{path}: a JSON object is expected"])


def as_object(value: object) -> Document:
    return value if isinstance(value, dict) else {}
