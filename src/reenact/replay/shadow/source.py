"""What calls of a candidate come to: as recorded where the recorded run made the same, else assumed. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from reenact.record.reader import RecordedStep
from reenact.replay.sources.dry import DrySource
from reenact.replay.sources.recorded import NothingRecorded, RecordedSource, attempt_result
from reenact.runtime.effects.source import AttemptCall, AttemptResult
from reenact.runtime.gates.answer import Approval, GateAnswer
from reenact.runtime.plans.steps import PlannedStep
from reenact.values.canonical import canonicalize

Basis = Literal["recorded", "assumed"]


@dataclass(slots=True)
class ShadowSource(RecordedSource):
    """A recording that goes on where the candidate takes another way: as a dry run does."""

    dry: DrySource = field(kw_only=True)
    basis: dict[str, Basis] = field(default_factory=dict, kw_only=True)
    """By step id, what its result stands on."""
    asks: set[str] = field(default_factory=set, kw_only=True)
    """Steps about which the candidate would ask a person who was not asked."""

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        step_id = call.step.step_id
        recorded = self.recording.steps.get(step_id)
        if recorded is None or not self.is_same(recorded, call):
            self.basis[step_id] = "assumed"
            return await self.dry.attempt(call)
        try:
            result = await RecordedSource.attempt(self, call)
        except NothingRecorded:
            self.basis[step_id] = "assumed"
            made = self.recording.results(step_id)
            if not made:
                return await self.dry.attempt(call)
            return attempt_result(recorded, made[-1])  # one more try: as the last one that was made
        self.basis.setdefault(step_id, "recorded")
        return result

    def is_same(self, recorded: RecordedStep, call: AttemptCall) -> bool:
        """The same skill in the same version, with the same parameters."""
        trace = recorded.trace
        if (trace.meta("skill_id"), trace.meta("skill_version")) != (call.step.skill_id, call.step.skill_version):
            return False
        return canonicalize(self.opened(recorded.parameters())) == canonicalize(call.parameters)

    def served_decision(self, step: PlannedStep, /) -> GateAnswer:
        try:
            answer = RecordedSource.served_decision(self, step)
        except NothingRecorded:
            answer = None
        was_asked = answer is not None and self.recording.plan.context.supervisor == "ask"
        if self.supervisor == "ask" and not was_asked and step.risk_level(step.parameters) != "READ":
            self.asks.add(step.step_id)
        return answer or Approval("auto")

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        """A reference to what nobody returned stays as it is written."""
        return RecordedSource.served_parameters(self, step) or dict(step.parameters)
