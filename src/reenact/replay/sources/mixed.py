"""Effects from the world for some steps and from the recording for others: full replays and forks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from reenact.contracts.facts import ExceptionFact, Facts
from reenact.errors import SkillError
from reenact.journal.fold import TraceFold
from reenact.policy.budget import Spent
from reenact.replay.modes.actions import Action
from reenact.replay.sources.recorded import NothingRecorded, RecordedSource, other_details, recorded_output
from reenact.runtime.effects.source import AttemptCall, AttemptResult, EffectSource, KeyAnswer, PersonSaid
from reenact.runtime.gates.answer import Answered, GateAnswer, Refusal
from reenact.runtime.plans.steps import PlannedStep
from reenact.values.clock import Clock

IN_DOUBT = f"{SkillError.__module__}.{SkillError.__qualname__}.ERR_IN_DOUBT"


@dataclass(slots=True)
class FullReplaySource(EffectSource):
    """Live for steps that are executed, the recorded effect where one is skipped, the skill's read-back to check."""

    live: EffectSource
    recorded: RecordedSource
    actions: dict[str, Action]
    clock: Clock

    def action(self, step: PlannedStep) -> Action:
        return self.actions.get(step.step_id, "skip")

    def is_live(self, step: PlannedStep, /) -> bool:
        return self.action(step) == "execute"

    def is_served_whole(self) -> bool:
        return all(action == "skip" for action in self.actions.values())

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        if self.action(call.step) == "check":
            return await self.check(call)
        return await self.live.attempt(call)

    async def check(self, call: AttemptCall) -> AttemptResult:
        """What reading back says; an effect that is not there, or that nobody can tell, is in doubt.

        It is asked under the recorded key: the effect that is looked for was made with that one.
        """
        started = self.clock.timestamp()
        recorded = self.recorded.recording.trace(call.step.step_id)
        if recorded is not None and recorded.call is not None:
            call = replace(call, idempotency_key=recorded.call.idempotency_key)
        answer = await self.live.reconcile(call)
        if isinstance(answer, AttemptResult):
            return answer
        said = "the effect is not there" if answer is False else "reading back could not tell whether it is there"
        said += f": {answer}" if isinstance(answer, str) and answer else ""
        return AttemptResult(
            facts=Facts(exceptions=(ExceptionFact(errno=None, type=IN_DOUBT),)),
            started_at=started,
            ended_at=self.clock.timestamp(),
            latency_ms=0,
            message=said,
            details={"check": said},
        )

    async def left_behind(self, call: AttemptCall, wait: bool, /) -> AttemptResult | bool:  # noqa: FBT001
        return await self.live.left_behind(call, wait)

    async def reconcile(self, call: AttemptCall, /) -> AttemptResult | bool | str:
        return await self.live.reconcile(call)

    def redispatches(self, trace: TraceFold, /, *, in_doubt: bool) -> int:
        return self.live.redispatches(trace, in_doubt=in_doubt)

    def missing_secret(self, step: PlannedStep, parameters: dict[str, object], /) -> str | None:
        return None if self.action(step) == "skip" else self.live.missing_secret(step, parameters)

    def secrets_refused(self, step: PlannedStep, /) -> list[str]:
        return self.recorded.secrets_refused(step) if self.action(step) == "skip" else []

    def given_up(self, step: PlannedStep, /) -> Refusal | None:
        return self.recorded.given_up(step) if self.action(step) == "skip" else None

    def served_decision(self, step: PlannedStep, /) -> GateAnswer | None:
        """Nobody is asked about a call that is not made."""
        if self.action(step) != "skip":
            return None
        try:
            return self.recorded.served_decision(step)
        except NothingRecorded:
            return None

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        return self.recorded.served_parameters(step) if self.action(step) == "skip" else None

    def served_spending(self, step: PlannedStep, /) -> tuple[Spent, Spent] | None:
        return self.recorded.served_spending(step) if self.action(step) == "skip" else None

    def key_gate(self, step: PlannedStep, /) -> Answered | Refusal | None:
        return self.recorded.key_gate(step) if self.action(step) == "skip" else None

    async def key_answer(self, step: PlannedStep, /) -> KeyAnswer | None:
        action = self.action(step)
        if action == "execute":
            return None
        return KeyAnswer() if action == "check" else self.skipped(step)

    def skipped(self, step: PlannedStep) -> KeyAnswer:
        """The recorded effect, marked as served; what did not succeed in the original is refused with its code."""
        recorded = self.recorded.recording.steps.get(step.step_id)
        if recorded is None:
            return KeyAnswer(
                code="ERR_POLICY_VIOLATION",
                message=f"step {step.step_id} was never made in the recorded run; a replay makes it only by name",
            )
        outcome = recorded.outcome()
        if recorded.trace.state != "COMPLETED":
            return KeyAnswer(code=outcome.code, message=f"skipped; in the recorded run it ended with {outcome.code}")
        return KeyAnswer(
            outcome=replace(outcome, details=other_details(outcome)),
            output=recorded_output(recorded)[1],
            served_from=recorded.trace.trace_id,
        )


@dataclass(slots=True)
class ForkSource(EffectSource):
    """The recording up to a step, another source from there on."""

    before: EffectSource
    after: EffectSource
    is_before: Callable[[str], bool]

    def source(self, step_id: str) -> EffectSource:
        return self.before if self.is_before(step_id) else self.after

    def is_live(self, step: PlannedStep, /) -> bool:
        return self.source(step.step_id).is_live(step)

    def is_served_whole(self) -> bool:
        return self.before.is_served_whole() and self.after.is_served_whole()

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        return await self.source(call.step.step_id).attempt(call)

    async def left_behind(self, call: AttemptCall, wait: bool, /) -> AttemptResult | bool:  # noqa: FBT001
        return await self.source(call.step.step_id).left_behind(call, wait)

    async def reconcile(self, call: AttemptCall, /) -> AttemptResult | bool | str:
        return await self.source(call.step.step_id).reconcile(call)

    def redispatches(self, trace: TraceFold, /, *, in_doubt: bool) -> int:
        return self.source(trace.step_id).redispatches(trace, in_doubt=in_doubt)

    def missing_secret(self, step: PlannedStep, parameters: dict[str, object], /) -> str | None:
        return self.source(step.step_id).missing_secret(step, parameters)

    def secrets_refused(self, step: PlannedStep, /) -> list[str]:
        return self.source(step.step_id).secrets_refused(step)

    def given_up(self, step: PlannedStep, /) -> Refusal | None:
        return self.source(step.step_id).given_up(step)

    def served_decision(self, step: PlannedStep, /) -> GateAnswer | None:
        return self.source(step.step_id).served_decision(step)

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        return self.source(step.step_id).served_parameters(step)

    def served_spending(self, step: PlannedStep, /) -> tuple[Spent, Spent] | None:
        return self.source(step.step_id).served_spending(step)

    def no_money_left(self, trace: TraceFold, /) -> str | None:
        return self.source(trace.step_id).no_money_left(trace)

    def person_said(self, trace: TraceFold, /) -> PersonSaid | None:
        return self.source(trace.step_id).person_said(trace)

    def key_gate(self, step: PlannedStep, /) -> Answered | Refusal | None:
        return self.source(step.step_id).key_gate(step)

    async def key_answer(self, step: PlannedStep, /) -> KeyAnswer | None:
        return await self.source(step.step_id).key_answer(step)
