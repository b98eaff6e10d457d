"""The recording as a source of effects: every attempt is served, nothing is called, slept or looked up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import cast

from msgspec import structs

from reenact.contracts.facts import Facts
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Attempt
from reenact.journal.fold import TraceFold
from reenact.policy.budget import Spent
from reenact.record.reader import RecordedStep
from reenact.record.recording import Recording
from reenact.replay.sources.stand_in import decision_meta, details_of, refused_by
from reenact.runtime.effects.secrets import Secrets
from reenact.runtime.effects.source import SAME, AttemptCall, AttemptResult, EffectSource, KeyAnswer, PersonSaid
from reenact.runtime.gates.answer import Answered, Approval, GateAnswer, GateName, Refusal
from reenact.runtime.parked import Parked
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.writing.redaction import Redactor
from reenact.values import clock
from reenact.values.canonical import canonicalize


class NothingRecorded(Exception):
    """The replay asks for something that the recorded run never did: here it took another way."""

    def __init__(self, step: PlannedStep, asked: str, parameters: dict[str, object] | None = None) -> None:
        super().__init__(asked)
        self.step = step
        self.asked = asked
        self.parameters = parameters


@dataclass(slots=True)
class RecordedSource(EffectSource):
    """Effects from a recording, by step id and attempt."""

    recording: Recording
    supervisor: str
    """The plan's supervisor: the plan's own `auto` decides again, anybody else's word is served."""
    strict: bool = False
    """Serve an attempt only to the call that made it: with other parameters there is nothing to serve."""
    outputs: Mapping[str, object] = field(default_factory=dict)
    """Outputs that are put in the place of recorded ones, by step id."""
    in_turn: Callable[[str], Awaitable[None]] | None = None
    """Where calls overlapped: holds an attempt of a step back until its time in the record has come."""

    def is_live(self, _step: PlannedStep, /) -> bool:
        return False

    async def attempt(self, call: AttemptCall) -> AttemptResult:
        recorded = self.recording.steps.get(call.step.step_id)
        if recorded is None:
            raise NothingRecorded(call.step, "a step that the recorded run did not make", call.parameters)
        found = next((a for a in self.recording.results(call.step.step_id) if a.attempt == call.attempt), None)
        if found is None and recorded.trace.state == "EXECUTING":
            if self.in_turn is not None:
                await self.in_turn(call.step.step_id)  # it stays open, whatever comes beside it
            raise Parked("held", f"what came of step {call.step.step_id} is not recorded")
        if found is None:
            raise NothingRecorded(
                call.step, f"attempt {call.attempt}, which the recorded run did not make", call.parameters
            )
        if self.in_turn is not None:
            await self.in_turn(call.step.step_id)
        if self.strict and canonicalize(self.opened(recorded.parameters())) != canonicalize(call.parameters):
            raise NothingRecorded(
                call.step, "a call with parameters that the recorded run did not use", call.parameters
            )
        result = attempt_result(recorded, found)
        if call.step.step_id in self.outputs and result.output is not None:
            return structs.replace(result, output=self.outputs[call.step.step_id], response=SAME)
        return result

    def is_served_whole(self) -> bool:
        return True

    def opened(self, value: object) -> object:
        """A recorded value as a call is made with it: with the key, what was encrypted is decrypted."""
        return Redactor(Secrets(), (), self.recording.store.encryption_file).decrypt(value)

    def redispatches(self, trace: TraceFold, /, **_known: bool) -> int:
        recorded = self.recording.trace(trace.step_id)
        ahead = [] if recorded is None else dispatches(recorded)[len(trace.attempts) :]
        return sum(1 for _ in takewhile(lambda record: record.kind == "redispatch", ahead))

    async def in_turn_again(self, trace: TraceFold, /, *, in_doubt: bool) -> None:
        if self.in_turn is not None and (in_doubt or self._waits(trace)):
            await self.in_turn(trace.step_id)

    def _waits(self, trace: TraceFold) -> bool:
        """Whether something is recorded of a failure's retry: that it was made, or that there was no money for it."""
        recorded, last = self.recording.trace(trace.step_id), trace.attempts[-1]
        if recorded is None or last.kind != "attempt":
            return False
        ahead = dispatches(recorded)[len(trace.attempts) :]
        if ahead:
            return ahead[0].kind == "attempt"
        return recorded.effect is not None and self.person_said(trace) is None

    def passed_budget(self, step: PlannedStep, /) -> bool:
        recorded = self.recording.steps.get(step.step_id)
        if self.in_turn is None or recorded is None or recorded.trace.state != "DENIED":
            return False
        return decision_meta(recorded.trace).get("gate") == "supervisor"

    def missing_secret(self, step: PlannedStep, _parameters: dict[str, object], /) -> str | None:
        recorded = self.recording.steps.get(step.step_id)
        if recorded is None or refused_by(recorded.trace, "validate", "ERR_SECRET_UNAVAILABLE") is None:
            return None
        return str(details_of(recorded).get("secret", "as recorded"))

    def secrets_refused(self, step: PlannedStep, /) -> list[str]:
        recorded = self.recording.steps.get(step.step_id)
        if recorded is None or refused_by(recorded.trace, "validate", "ERR_VALIDATION_FAILED") is None:
            return []
        places = details_of(recorded).get("secret_at")
        return [str(place) for place in places] if isinstance(places, list) else []

    def given_up(self, step: PlannedStep, /) -> Refusal | None:
        recorded = self.recording.steps.get(step.step_id)
        if recorded is None or refused_by(recorded.trace, "supervisor", "ERR_CANCELLED") is None:
            return None
        return refusal_of(recorded)

    def passed_duplicates(self, step_id: str) -> bool:
        """Whether no equal call was under way when this one was decided, or its host had given up on that one."""
        recorded = self.recording.steps[step_id]
        given_up = refused_by(recorded.trace, "supervisor", "ERR_CANCELLED") is not None
        return decision_meta(recorded.trace).get("gate") in ("budget", "supervisor") and not given_up

    def served_decision(self, step: PlannedStep, /) -> GateAnswer:
        """Never None: whoever supervises where this is replayed is not asked."""
        recorded = self.recording.steps.get(step.step_id)
        if self.supervisor == "auto" and not self.was_supervised(recorded):
            return Approval("auto")
        if recorded is None or recorded.trace.decision is None:
            raise NothingRecorded(step, "a decision that nobody made in the recorded run")
        return supervisor_said(recorded, step)

    def was_supervised(self, recorded: RecordedStep | None) -> bool:
        """Under `auto` too a call may have come before its host's function, or may still wait for what it says."""
        if recorded is None or self.recording.plan.context.supervisor != "auto":
            return False
        return recorded.trace.decision is None or decision_meta(recorded.trace).get("gate") == "supervisor"

    def served_parameters(self, step: PlannedStep, /) -> dict[str, object] | None:
        """Recorded arguments for a step whose references lead to a value that was erased since.

        Where they were erased too, what is left of them tells equal ones from others; a stand-in decides as before.
        """
        recorded = self.recording.steps.get(step.step_id)
        if recorded is None or refused_by(recorded.trace, "validate", "ERR_REFERENCE_UNRESOLVED") is not None:
            return None
        value = recorded.parameters()
        return value if isinstance(value, dict) else {"$erased": args_commitment(recorded)}

    def served_spending(self, step: PlannedStep, /) -> tuple[Spent, Spent] | None:
        trace = self.recording.trace(step.step_id)
        meta = {} if trace is None else decision_meta(trace)
        day, model = meta.get("day_spent_exact"), meta.get("model_spent_exact")
        return Spent(int(str(day or 0))), Spent(int(str(model or 0)))

    def no_money_left(self, trace: TraceFold, /) -> str | None:
        recorded = self.recording.steps.get(trace.step_id)
        if recorded is None or recorded.trace.effect is None or not has_come_to_its_end(trace, recorded):
            return None
        outcome = recorded.outcome()
        limit = (outcome.details or {}).get("refused_by", "day")  # where that was erased, the run's is computed again
        return outcome.message if outcome.code == "ERR_BUDGET_EXCEEDED" and limit in ("day", "model") else None

    def served_utility(self, step: PlannedStep, /) -> str | None:
        recorded = self.recording.steps.get(step.step_id)
        last = None if recorded is None else recorded.trace.effect or recorded.trace.decision
        said = last.meta.get("step_utility") if last is not None and isinstance(last.meta, dict) else None
        return said if isinstance(said, str) else None

    def person_said(self, trace: TraceFold, /) -> PersonSaid | None:
        """The recorded call ended here although no attempt ended it: somebody did."""
        recorded = self.recording.steps.get(trace.step_id)
        if recorded is None or recorded.trace.effect is None or not has_come_to_its_end(trace, recorded):
            return None
        outcome = recorded.outcome()
        if recorded.trace.trace_id not in self.recording.resolved and outcome.code != "ERR_CANCELLED":
            return None
        return PersonSaid(outcome.ok, recorded_output(recorded)[1], outcome.code, self.in_turn)

    def key_gate(self, step: PlannedStep, /) -> Answered | Refusal | None:
        recorded = self.recording.steps.get(step.step_id)
        if recorded is None or not recorded.trace.decided_by_key:
            return None
        return refusal_of(recorded) if recorded.trace.state == "DENIED" else served_by(recorded)

    async def key_answer(self, step: PlannedStep, /) -> KeyAnswer | None:
        recorded = self.recording.steps.get(step.step_id)
        if recorded is None or recorded.trace.effect is None:
            return KeyAnswer()
        answer = recorded_key_answer(recorded)
        if not answer.is_free and self.in_turn is not None:
            await self.in_turn(step.step_id)  # what it has reserved is reserved until then
        return answer


def dispatches(trace: TraceFold) -> list[Attempt]:
    """The records of a trace that a replay makes again: that an answer was lost decides nothing."""
    return [record for record in trace.attempts if record.kind != "lost"]


def has_come_to_its_end(trace: TraceFold, recorded: RecordedStep) -> bool:
    """Every dispatch that is recorded has been served."""
    return len(trace.attempts) >= len(dispatches(recorded.trace))


def attempt_result(recorded: RecordedStep, attempt: Attempt) -> AttemptResult:
    """One recorded dispatch, as it is handed to the runtime: facts to decide on again, values to keep."""
    outcome = recorded.outcome() if recorded.trace.effect is not None else None
    last = attempt.backoff_ms is None and outcome is not None
    output = recorded_output(recorded) if last and outcome is not None and outcome.ok else (None, None)
    response: object = SAME
    if attempt.response is not None and attempt.response != output[0]:
        response = recorded.value(attempt.response, "tool_effect")
    return AttemptResult(
        facts=attempt.facts or Facts(),
        started_at=str(attempt.started_at),
        ended_at=str(attempt.ended_at),
        latency_ms=outcome.latency_ms if last and outcome is not None else elapsed_ms(attempt),
        output=output[1],
        response=response,
        side_effects=[(effect.type, effect.target) for effect in attempt.side_effects],
        request_id=attempt.request_id,
        retry_after_ms=attempt.retry_after_ms,
        message=outcome.message if last and outcome is not None else None,
        details=other_details(outcome) if last and outcome is not None else None,
    )


def recorded_output(recorded: RecordedStep) -> tuple[str | None, object]:
    assert recorded.trace.effect is not None
    commitment = recorded.trace.effect.commitment("/output")
    return commitment, None if commitment is None else recorded.value(commitment, "tool_effect")


def args_commitment(recorded: RecordedStep) -> str:
    assert recorded.trace.request is not None
    return str(recorded.trace.request.proposal.args.get("$commit"))


def elapsed_ms(attempt: Attempt) -> int:
    if attempt.started_at is None or attempt.ended_at is None:
        return 0
    return clock.elapsed_ms(attempt.started_at, attempt.ended_at)


def other_details(outcome: StructuredOutcome) -> dict[str, object] | None:
    """What the skill added; the runtime puts in the rest again."""
    kept = {
        key: value for key, value in (outcome.details or {}).items() if key not in ("output", "upstream_status")
    }  # fmt: skip
    return kept or None


def supervisor_said(recorded: RecordedStep, step: PlannedStep) -> GateAnswer:
    """What a person or a function decided; a step that another gate refused was never shown to them."""
    meta = decision_meta(recorded.trace)
    decided = recorded.trace.decision
    assert decided is not None
    if decided.decision == "APPROVE":
        # Only a run that holds the vote may say that a person approved: here the record speaks for them.
        return Approval("auto" if decided.rationale == "Approved by auto" else "policy")
    if meta.get("gate") != "supervisor":
        raise NothingRecorded(step, f"a decision; the recorded run was refused by the gate {meta.get('gate')} before")
    return refusal_of(recorded)


def refusal_of(recorded: RecordedStep) -> Refusal:
    """A gate's recorded no."""
    details, meta = details_of(recorded), decision_meta(recorded.trace)
    message = str(details.pop("message", ""))
    return Refusal(cast("GateName", meta["gate"]), str(meta["code"]), message, details)


def served_by(recorded: RecordedStep) -> Answered:
    """The effect of an earlier call, as the key served it in the record."""
    assert recorded.trace.effect is not None
    meta = recorded.trace.effect.meta if isinstance(recorded.trace.effect.meta, dict) else {}
    served = structs.replace(recorded.outcome(), details=other_details(recorded.outcome()))
    return Answered(served, recorded_output(recorded)[1], str(meta.get("served_from")))


def recorded_key_answer(recorded: RecordedStep) -> KeyAnswer:
    trace = recorded.trace
    assert trace.effect is not None
    if trace.attempts and trace.attempts[-1].kind == "served":
        served = served_by(recorded)
        return KeyAnswer(outcome=served.outcome, output=served.output, served_from=served.served_from)
    if trace.effect.outcome.status == "DENIED" and not trace.attempts:
        outcome = recorded.outcome()
        return KeyAnswer(code=outcome.code, message=outcome.message)
    return KeyAnswer()
