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
from reenact.replay.sources.recorded import NothingRecorded, RecordedSource
from reenact.runtime.effects.source import AttemptCall, AttemptResult, EffectSource, KeyAnswer, PersonSaid
from reenact.runtime.gates.answer import Answered, GateAnswer, Refusal
from reenact.runtime.plans.steps import PlannedStep
from reenact.values.clock import Clock

IN_DOUBT = f"{SkillError.__module__}.{SkillError.__qualname__}.ERR_IN_DOUBT"
POLICY_VIOLATION = f"{SkillError.__module__}.{SkillError.__qualname__}.ERR_POLICY_VIOLATION"


@dataclass(slots=True)
class FullReplaySource(EffectSource):
    """Live for steps that are executed, the recorded attempts where one is skipped, the skill's read-back to check.

    What a skipped step cost and touched is charged and told in the replay as it was in the original: so a budget stops
    both in the same place. Beyond the replay's own run nothing is spent.
    """

    live: EffectSource
    recorded: RecordedSource
    actions: dict[str, Action]
    clock: Clock

    def action(self, step_id: str) -> Action:
        return self.actions.get(step_id, "skip")

    def source(self, step_id: str) -> EffectSource:
        return self.recorded if self.action(step_id) == "skip" else self.live

    def is_live(self, step: PlannedStep, /) -> bool:
        return self.action(step.step_id) == "execute"

    def is_served_whole(self) -> bool:
        return all(action == "skip" for action in self.actions.values())

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        action = self.action(call.step.step_id)
        if action == "execute":
            return await self.live.attempt(call)
        return await (self.check(call) if action == "check" else self.skipped(call))

    async def skipped(self, call: AttemptCall) -> AttemptResult:
        """The recorded attempt, with the trace it is of; one that nobody made is refused."""
        try:
            result = await self.recorded.attempt(call)
        except NothingRecorded as nothing:
            return self.unmade(POLICY_VIOLATION, f"skipped; it asked for {nothing.asked}", {})
        served_from = self.recorded.recording.steps[call.step.step_id].trace.trace_id
        return replace(result, details={**(result.details or {}), "served_from": served_from})

    async def check(self, call: AttemptCall) -> AttemptResult:
        """What reading back says; an effect that is not there, or that nobody can tell, is in doubt.

        It is asked under the recorded key: the effect that is looked for was made with that one.
        """
        recorded = self.recorded.recording.trace(call.step.step_id)
        if recorded is not None and recorded.call is not None:
            call = replace(call, idempotency_key=recorded.call.idempotency_key)
        answer = await self.live.reconcile(call)
        if isinstance(answer, AttemptResult):
            return answer
        said = "the effect is not there" if answer is False else "reading back could not tell whether it is there"
        said += f": {answer}" if isinstance(answer, str) and answer else ""
        return self.unmade(IN_DOUBT, said, {"check": said})

    def unmade(self, kind: str, said: str, details: dict[str, object]) -> AttemptResult:
        now = self.clock.timestamp()
        return AttemptResult(
            facts=Facts(exceptions=(ExceptionFact(errno=None, type=kind),)),
            started_at=now,
            ended_at=now,
            latency_ms=0,
            message=said,
            details=details,
        )

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

    def served_utility(self, step: PlannedStep, /) -> str | None:
        return self.source(step.step_id).served_utility(step)

    def given_up(self, step: PlannedStep, /) -> Refusal | None:
        return self.source(step.step_id).given_up(step)

    def served_decision(self, step: PlannedStep, /) -> GateAnswer | None:
        """Nobody is asked about a call that is not made."""
        try:
            return self.source(step.step_id).served_decision(step)
        except NothingRecorded:
            return None

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
        action = self.action(step.step_id)
        if action == "execute":
            return None
        return KeyAnswer() if action == "check" else self.not_served(step) or await self.recorded.key_answer(step)

    def not_served(self, step: PlannedStep) -> KeyAnswer | None:
        """Why a skipped step ends here: nothing is recorded that it could be served."""
        recorded = self.recorded.recording.steps.get(step.step_id)
        if recorded is None:
            return KeyAnswer(
                code="ERR_POLICY_VIOLATION",
                message=f"step {step.step_id} was never made in the recorded run; a replay makes it only by name",
            )
        if recorded.trace.state == "DENIED":
            code = recorded.outcome().code
            return KeyAnswer(code=code, message=f"skipped; in the recorded run it ended with {code}")
        if not recorded.trace.terminal:
            return KeyAnswer(code="ERR_IN_DOUBT", message="skipped; what came of it in the recorded run is not known")
        return None


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
