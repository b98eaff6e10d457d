"""Effects of a dry run: nothing is called, and what each call is expected to do is written down."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from reenact.contracts.facts import Facts
from reenact.errors import SkillError
from reenact.policy.classify import facts_of
from reenact.record.reader import RecordedStep
from reenact.record.recording import Recording
from reenact.replay.forecast.reachability import why_refused
from reenact.replay.forecast.usual_times import time_of
from reenact.replay.sources.recorded import recorded_output
from reenact.runtime.effects.source import AttemptCall, AttemptResult, EffectSource, KeyAnswer
from reenact.runtime.gates.answer import Approval, GateAnswer
from reenact.runtime.money import Money
from reenact.runtime.plans.steps import PlannedStep, RunPlan
from reenact.values.clock import Clock


class Expected(Struct, frozen=True, kw_only=True):
    """What one step is expected to do."""

    time_ms: int | None
    side_effects: tuple[tuple[str, str], ...]
    asks_person: bool
    fails: bool = False


@dataclass
class DrySource(EffectSource):
    """Effects that nobody has: a call succeeds and returns what it returned before, if it ever did."""

    plan: RunPlan
    clock: Clock
    recording: Recording | None = None
    seen: dict[str, Expected] = field(default_factory=dict)
    """The calls that were attempted, by step id."""
    money: Money = field(init=False)
    """That of the dry run."""

    def recorded(self, step_id: str) -> RecordedStep | None:
        return None if self.recording is None else self.recording.steps.get(step_id)

    def is_live(self, _step: PlannedStep, /) -> bool:
        return False

    def is_served_whole(self) -> bool:
        return True

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        recorded, now = self.recorded(call.step.step_id), self.clock.timestamp()
        error = await self.failure(call)
        effects = [] if error is not None else expected_side_effects(call.step, recorded)
        self.seen[call.step.step_id] = Expected(
            time_ms=None if recorded is None else time_of(recorded.trace),
            side_effects=tuple(effects),
            asks_person=self.plan.plan.context.supervisor == "ask" and call.step.risk_level(call.parameters) != "READ",
            fails=error is not None,
        )
        has_effect = recorded is not None and recorded.trace.effect is not None
        return AttemptResult(
            facts=Facts() if error is None else facts_of(error),
            started_at=now,
            ended_at=now,
            latency_ms=0,
            output=recorded_output(recorded)[1] if recorded is not None and has_effect else None,
            side_effects=effects,
            message=None if error is None else str(error),
        )

    async def failure(self, call: AttemptCall) -> SkillError | None:
        """How the attempt would fail: as its skill does without touching anything. What succeeded once does again."""
        recorded = self.recorded(call.step.step_id)
        if recorded is not None and recorded.trace.state == "COMPLETED":
            return None
        return await why_refused(call.step, call.parameters, call.context)

    def served_decision(self, _step: PlannedStep, /) -> GateAnswer | None:
        return Approval("auto")

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        """A reference to an output that nobody made yet stays as it is written."""
        recorded = self.recorded(step.step_id)
        value = None if recorded is None else recorded.parameters()
        return value if isinstance(value, dict) else dict(step.parameters)

    async def key_answer(self, _step: PlannedStep, /) -> KeyAnswer | None:
        return KeyAnswer()


def expected_side_effects(step: PlannedStep, recorded: RecordedStep | None) -> list[tuple[str, str]]:
    """Of one attempt: as the recorded one that ended the step, else as the skill declares them."""
    if recorded is not None and recorded.trace.attempts:
        return [(effect.type, effect.target) for effect in recorded.trace.attempts[-1].side_effects]
    declared = () if step.skill is None else step.skill.metadata.side_effects
    return [(name, step.skill_id) for name in declared]
