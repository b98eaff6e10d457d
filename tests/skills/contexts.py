"""A context to call skills with, outside any run."""

from __future__ import annotations

from typing import Any

from reenact.skills.context import SkillContext

RUN = "0190a5f0-0000-7000-8000-000000000001"
TRACE = "0190a5f0-0000-7000-8000-000000000002"


def make_context(**changes: Any) -> SkillContext:
    values: dict[str, Any] = {
        "run_id": RUN,
        "step_id": "s1",
        "trace_id": TRACE,
        "idempotency_key": "key-1",
        **changes,
    }
    return SkillContext(**values)
