"""Reenact: crash-safe tool calls for AI agents, recorded, replayable, provable.

The public names, each loaded when it is first asked for. To read the code, begin with `docs/design/architecture.md`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from reenact.lazy import loading
from reenact.version import __version__

if TYPE_CHECKING:
    from reenact.contracts.host_policy import Policy
    from reenact.contracts.outcome import StructuredOutcome
    from reenact.errors import SkillError
    from reenact.policy.budget import check_budget
    from reenact.policy.classify import map_exception_to_code
    from reenact.policy.cost import calculate_cost
    from reenact.policy.replay_control import ReplayControl, ToolDenied, ToolSpec
    from reenact.policy.retry import RetryPolicy, calculate_backoff_ms, should_retry
    from reenact.record.result import RunResult
    from reenact.record.tga.state_store import TgaStateStore
    from reenact.replay.runtime import Runtime
    from reenact.skills.context import SkillContext, current
    from reenact.skills.declare import skill
    from reenact.skills.from_schema import skill_from_schema
    from reenact.skills.registry import Registry
    from reenact.values.canonical import canonicalize

# name → module. Loaded when first asked for, so that `import reenact` and `reenact --help` stay fast.
_HOME = {
    "Policy": "reenact.contracts.host_policy",
    "Registry": "reenact.skills.registry",
    "ReplayControl": "reenact.policy.replay_control",
    "RetryPolicy": "reenact.policy.retry",
    "RunResult": "reenact.record.result",
    "Runtime": "reenact.replay.runtime",
    "SkillContext": "reenact.skills.context",
    "SkillError": "reenact.errors",
    "StructuredOutcome": "reenact.contracts.outcome",
    "TgaStateStore": "reenact.record.tga.state_store",
    "ToolDenied": "reenact.policy.replay_control",
    "ToolSpec": "reenact.policy.replay_control",
    "calculate_backoff_ms": "reenact.policy.retry",
    "calculate_cost": "reenact.policy.cost",
    "canonicalize": "reenact.values.canonical",
    "check_budget": "reenact.policy.budget",
    "current": "reenact.skills.context",
    "map_exception_to_code": "reenact.policy.classify",
    "should_retry": "reenact.policy.retry",
    "skill": "reenact.skills.declare",
    "skill_from_schema": "reenact.skills.from_schema",
}

__all__ = [
    "Policy",
    "Registry",
    "ReplayControl",
    "RetryPolicy",
    "RunResult",
    "Runtime",
    "SkillContext",
    "SkillError",
    "StructuredOutcome",
    "TgaStateStore",
    "ToolDenied",
    "ToolSpec",
    "__version__",
    "calculate_backoff_ms",
    "calculate_cost",
    "canonicalize",
    "check_budget",
    "current",
    "map_exception_to_code",
    "should_retry",
    "skill",
    "skill_from_schema",
]

importlib.import_module("reenact.store.sqlite.trouble.forks")
"""Forks wait for threads that import a module from here on: also for the one that imports the store first."""

__getattr__ = loading(__name__, _HOME)
