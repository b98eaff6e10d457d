"""Recordings in a test folder: exported runs, replayed with the network shut, made only when asked for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

from reenact.record.bundle import load_bundle
from reenact.record.export import export_run
from reenact.record.recording import Recording
from reenact.replay.breakers import Breaker, as_list, as_mapping, find_breakers
from reenact.replay.modes.mock import mock_replay
from reenact.replay.result import ReplayResult
from reenact.replay.runtime import Runtime
from reenact.runtime.effects.coroutines import run_sync
from reenact.runtime.gates.supervisor import SupervisorFunction
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill
from reenact.testing.network import shut_network
from reenact.testing.running import registry_of
from reenact.testing.sessions import RecordedSession, answered, leave_no_secret, made

RecordMode = Literal["none", "missing", "all"]
"""none: only replay; missing: record what there is no recording of; all: record everything anew."""


LONGEST_ID: Final = 255
"""Of a session."""


class NoRecording(AssertionError):
    """There is none, and none may be made."""


class RecordingDiffers(AssertionError):
    """The replay did not behave as the recording, or the test runs another plan than the recorded one."""


@dataclass(frozen=True, slots=True)
class Recordings:
    """The recordings of one folder."""

    folder: Path
    mode: RecordMode = "none"
    again: str = "pytest --reenact-record=all"
    """The command that records a test anew."""
    made: set[str] = field(default_factory=set)
    """Names of the recordings that were made here."""

    def run(
        self,
        name: str,
        plan: Mapping[str, object],
        *,
        skills: Iterable[Skill] | Registry = (),
        secrets: Mapping[str, str] | None = None,
        supervisor: SupervisorFunction | None = None,
    ) -> ReplayResult:
        """Replay the recording `name` of this plan, network shut, and hold it to its behaviour.

        A recording is made first where the mode allows it. One that is damaged is never taken for absent: it raises.
        """
        registry = registry_of(skills)
        target = self.folder / name
        if self.is_to_be_made(name):
            record(target, plan, registry, secrets, supervisor)
        recording = load_bundle(target)
        changed = plan_changes(recording, plan)
        if changed:
            said = "; ".join(breaker.message for breaker in changed)
            raise RecordingDiffers(
                f"{target} was recorded of another plan: {said}; record it again, or put the plan back"
            )
        bumped = tool_changes(recording, plan, registry)
        if bumped:
            raise RecordingDiffers(f"{target} was recorded with other tools: {'; '.join(bumped)}; record it again")
        with shut_network():
            result = run_sync(mock_replay(recording, registry))
        if not result.matches:
            why = "" if result.divergence is None else result.divergence.explanation
            raise RecordingDiffers(f"the replay of {target} differed: {why}")
        return result

    def session(
        self,
        name: str,
        *,
        skills: Iterable[Skill] | Registry = (),
        secrets: Mapping[str, str] | None = None,
        supervisor: SupervisorFunction | None = None,
        execute: Collection[str] = (),
        **wanted: object,
    ) -> RecordedSession:
        """The recorded session `name`, to run an agent over; made first, by that agent, where the mode allows it.

        `wanted` is what `Runtime.session` takes: goal, agent_id, budget_cents, context.
        """
        __tracebackhide__ = True
        target, registry = self.folder / name, registry_of(skills)

        def runtime(store: object) -> Runtime:
            return Runtime(store, skills=registry, secrets=secrets, supervisor=supervisor)  # type: ignore[arg-type]

        if self.is_to_be_made(name):
            around = made(runtime, wanted, name[:LONGEST_ID], lambda store, run: keep_run(store, run, target))
        else:
            around = answered(target, runtime, wanted, execute)
        return RecordedSession(around, f"recorded in {target}; if the change is meant, record it again: {self.again}")

    def is_to_be_made(self, name: str) -> bool:
        """Whether to record; NoRecording where there is none and none may be made. One test makes each once."""
        __tracebackhide__ = True
        target = self.folder / name
        if (self.mode == "all" and name not in self.made) or (self.mode == "missing" and not target.exists()):
            self.made.add(name)
            return True
        if not target.exists():
            raise NoRecording(f"there is no recording {target}; make it with: pytest --reenact-record=missing")
        return False


def tool_changes(recording: Recording, plan: Mapping[str, object], registry: Registry) -> list[str]:
    """In what the tools of today, as far as they are here, are not the ones that the plan was recorded with."""
    pins = recording.plan.context.pins
    assert pins is not None
    named = [as_mapping(step).get("skill_version") for step in as_list(plan.get("steps"))]
    changed: dict[str, None] = {}
    for step, version in zip(recording.plan.steps, named, strict=False):
        today = registry.versions(step.skill_id)
        if not today or (version is not None and version not in today):
            continue  # it is served without its code
        found = registry.highest(step.skill_id) if version is None else registry.resolve(step.skill_id, str(version))
        pinned = pins.skills.get(f"{step.skill_id}@{step.skill_version}")
        if found.version != step.skill_version:
            changed[f"{step.skill_id}: version {step.skill_version} → {found.version}"] = None
        elif pinned is not None and not found.is_defined_as(pinned):
            changed[f"{found.reference} declares something else now"] = None
    return list(changed)


def record(
    target: Path,
    plan: Mapping[str, object],
    registry: Registry,
    secrets: Mapping[str, str] | None,
    supervisor: SupervisorFunction | None,
) -> None:
    """Run the plan live, and keep it."""
    with tempfile.TemporaryDirectory(prefix="reenact-recording-") as scratch:
        store = str(Path(scratch) / "record.db")
        runtime = Runtime(store, skills=registry, secrets=secrets, supervisor=supervisor)
        leave_no_secret(runtime)
        try:
            run_id = runtime.run(plan).run_id
        finally:
            runtime.close()
        keep_run(store, run_id, target)


def keep_run(store: str, run_id: str, target: Path) -> None:
    """Export a run that has ended. The recording that was there is replaced once the new one is whole."""
    with tempfile.TemporaryDirectory(prefix="reenact-recording-") as scratch:
        fresh = Path(scratch) / "bundle"
        if not export_run(store, run_id, fresh).sealed:
            raise NoRecording(f"run {run_id} did not come to its end, so it is not kept as {target}")
        if target.exists():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(fresh, target)


def plan_changes(recording: Recording, plan: Mapping[str, object]) -> list[Breaker]:
    """In what the test's plan is not the recorded one. What was pinned when it was recorded stays the recording's."""
    recorded = recording.document
    context, pinned = as_mapping(plan.get("context")), as_mapping(recorded["context"])["pins"]
    versions = [as_mapping(step).get("skill_version") for step in as_list(recorded["steps"])]
    steps = [
        {**({"skill_version": version} if version is not None else {}), **as_mapping(step)}
        for step, version in zip_longest(as_list(plan.get("steps")), versions)
        if step is not None
    ]
    document = {**plan, "steps": steps, "context": {**context, "pins": pinned}}
    return find_breakers(recorded, document, None)
