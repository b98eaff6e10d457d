"""Run a plan in memory and replay it, in two lines of a test."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path

from reenact.contracts.plan import parse_plan, plan_from_document
from reenact.errors import PlanError, UsageError
from reenact.record.result import RunResult
from reenact.replay.api import replay as replay_run
from reenact.replay.result import ReplayResult
from reenact.replay.runtime import Runtime
from reenact.replay.sources.instant import InstantClock
from reenact.runtime.gates.supervisor import SupervisorFunction
from reenact.skills.registry import Registry, default_registry
from reenact.skills.skill import Skill
from reenact.store.open import in_memory
from reenact.values.bounds import read_file
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock, SystemClock
from reenact.values.digest import sha256_hex

PlanDocument = dict[str, object]
REMEMBERED = 64

_executed: OrderedDict[str, tuple[Runtime, str]] = OrderedDict()


def load_plan(path: str | Path) -> PlanDocument:
    """The plan in a file; a relative path is looked for beside the test that asks, then where the process stands."""
    given = Path(path)
    beside = Path(str(sys._getframe(1).f_globals.get("__file__", ""))).parent / given  # noqa: SLF001  # who asks
    chosen = beside if not given.is_absolute() and beside.is_file() else given
    try:
        data = read_file(chosen)
    except OSError as error:
        raise PlanError(f"{chosen}: {error.strerror or 'cannot be read'}; name a plan file") from None
    return parse_plan(data, source=str(chosen))[1]


def execute(
    plan: Mapping[str, object],
    *,
    skills: Iterable[Skill] | Registry = (),
    secrets: Mapping[str, str] | None = None,
    supervisor: SupervisorFunction | None = None,
    clock: Clock | None = None,
) -> RunResult:
    """Run the plan in memory, without waiting for back-offs. What it called is real unless it is mocked."""
    registry = registry_of(skills)
    runtime = Runtime(
        in_memory(),
        skills=registry,
        secrets=secrets,
        supervisor=supervisor,
        clock=InstantClock(clock or SystemClock()),
    )
    result = runtime.run(plan)
    _executed[identity(plan)] = (runtime, result.run_id)
    _executed.move_to_end(identity(plan))
    while len(_executed) > REMEMBERED:
        _executed.popitem(last=False)
    return result


def replay(plan: Mapping[str, object] | RunResult, *, mode: str = "mock_replay", **options: object) -> ReplayResult:
    """Replay the last run that `execute` made of this plan; or a run, given as its result.

    `options` are those of `reenact.replay.replay`.
    """
    if isinstance(plan, RunResult):
        where: Runtime | None = next((runtime for runtime, run_id in _executed.values() if run_id == plan.run_id), None)
        return replay_run(where or plan.store, plan.run_id, mode=mode, **options)  # type: ignore[arg-type]
    found = _executed.get(identity(plan))
    if found is None:
        raise UsageError("this plan was not executed in this process: call execute(plan) first, or name a recording")
    runtime, run_id = found
    return replay_run(runtime, run_id, mode=mode, **options)  # type: ignore[arg-type]  # checked there


def registry_of(skills: Iterable[Skill] | Registry) -> Registry:
    if isinstance(skills, Registry):
        return skills
    registry = default_registry()
    for skill in skills:
        registry.register(skill)
    return registry


def identity(plan: Mapping[str, object]) -> str:
    document = dict(plan)
    plan_from_document(document)
    return sha256_hex(canonicalize(document))


def assert_retry_behavior_matches(original: RunResult, replay: RunResult) -> None:  # the specification's word
    """Verify retry behavior is deterministic: retry count and final code of every step."""
    for step_id in original.steps:
        orig_step = original.get_step(step_id)
        replay_step = replay.get_step(step_id)
        assert orig_step.retry_count == replay_step.retry_count, f"Step {step_id}: retry count mismatch"
        assert orig_step.final_code == replay_step.final_code, f"Step {step_id}: final error code mismatch"
