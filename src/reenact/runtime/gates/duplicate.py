"""Third gate: within a turn, an idempotent call that succeeded is not made twice; a failed one may be."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.contracts.outcome import StructuredOutcome
from reenact.policy.replay_control import ReplayControl, ToolSpec
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.steps import PlannedStep


class DuplicateGate:
    """The calls of the current turn."""

    def __init__(self) -> None:
        self._control = ReplayControl()
        self._trace_of: dict[str, str] = {}

    def check(self, step: PlannedStep, parameters: Mapping[str, object]) -> Refusal | None:
        skip, reason = self._control.should_skip(step.skill_id, dict(parameters), spec_of(step))
        if not skip:
            return None
        earlier = self._trace_of.get(self._key(step, parameters))
        return Refusal("duplicate", "DENIED_DUPLICATE", reason, duplicate_of=earlier)

    def record(
        self, step: PlannedStep, parameters: Mapping[str, object], trace_id: str, outcome: StructuredOutcome
    ) -> None:
        spec = spec_of(step)
        if outcome.ok:
            self._control.record_success(step.skill_id, dict(parameters), spec)
            self._trace_of.setdefault(self._key(step, parameters), trace_id)
        else:
            self._control.record_failure(step.skill_id, dict(parameters), spec)

    @staticmethod
    def _key(step: PlannedStep, parameters: Mapping[str, object]) -> str:
        from reenact.policy.replay_control import call_key

        return call_key(step.skill_id, dict(parameters))


def spec_of(step: PlannedStep) -> ToolSpec:
    return ToolSpec(step.skill_id, idempotent=step.skill is not None and step.skill.metadata.idempotent)
