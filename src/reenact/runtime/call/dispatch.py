"""EXECUTING: attempt, classify, record the attempt, retry or end. The one retry loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from msgspec.structs import replace

from reenact.contracts.artifacts import EffectStatus
from reenact.contracts.facts import Facts
from reenact.contracts.outcome import (
    Observability,
    OutcomeMetadata,
    OutcomeStatus,
    StructuredOutcome,
)
from reenact.contracts.records import Attempt, SideEffect
from reenact.errors import StoreError
from reenact.journal.fold import TraceFold
from reenact.policy.budget import NOTHING, Spent
from reenact.policy.classify import classify
from reenact.policy.cost import cents
from reenact.policy.repeat import fate_unknown, may_repeat
from reenact.policy.retry import calculate_backoff_ms, should_retry
from reenact.policy.settle import Tariff, settle, tariff
from reenact.policy.taxonomy import is_retryable
from reenact.record.outcomes import outcome_side_effects, with_output
from reenact.runtime.call import artifacts as building
from reenact.runtime.call import doubt, unrecorded
from reenact.runtime.crash_points import reach
from reenact.runtime.effects import reports
from reenact.runtime.effects.source import SAME, AttemptCall, AttemptResult, PersonSaid
from reenact.runtime.gates import budget
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.money import reserved_by
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution, Fact, Parked

LONGEST_RETRY_AFTER_MS = 60_000
LONGEST_IN_FLIGHT = 5
"""How often a 409 after a re-dispatch is waited for before a person is asked."""


@dataclass(slots=True)
class Dispatch:
    """One call being executed."""

    ex: Execution
    trace: TraceFold
    step: PlannedStep
    parameters: dict[str, object]
    reserved: int
    rate: Tariff
    plain: bool = False
    """There is no secret in the parameters, so none can be missing."""

    async def run(self) -> StructuredOutcome:
        """Attempt until the step ends; the last attempt and the effect are staged, not yet durable."""
        if not (self.plain and self.ex.source.is_live(self.step)):
            self.hold_without_secret()
        while True:
            number = self.trace.made  # what is recorded of a doubt is none
            result = await doubt.known_result(self, number) if self.was_in_doubt else None
            if not isinstance(result, AttemptResult):
                refusal = await self.record_doubt() or self.out_of_money()
                if refusal is not None:
                    return self.end_without_money(refusal)
                said = self.ex.source.person_said(self.trace)
                if said is not None:
                    if said.in_turn is not None:
                        await said.in_turn(self.trace.step_id)  # what it has reserved is reserved until then
                    return end_as_told(self.ex, self.trace, self.step, said)
                result = await self.attempt(number)
            code = self.code_of(result)
            wait = self.back_off(code, result, number)
            output = self.record(result, code, number, wait)
            if wait is None:
                return self.end(result, code, output)
            if await self.wait(wait):
                return self.end_cancelled("the run was cancelled before it was sent again")

    def end_with(self, result: AttemptResult) -> StructuredOutcome:
        """The call ends with what is known of its last dispatch; where that failed, nothing is sent again."""
        number = self.trace.made
        code = self.code_of(result)
        wait = self.back_off(code, result, number)
        output = self.record(result, code, number, wait)
        if wait is None:
            return self.end(result, code, output)
        return self.end_cancelled("interrupted before it was sent again")

    # -- one attempt -----------------------------------------------------------------------------------------------

    def hold_without_secret(self) -> None:
        """Nothing may be dispatched without its secret, and nothing be given up for it: a person puts it back."""
        name = self.ex.source.missing_secret(self.step, self.parameters)
        if name is not None:
            raise Parked("held", f"step {self.step.step_id} needs the secret {name}, which is not set")

    async def record_doubt(self) -> Refusal | None:
        """A call that may have been sent already is recorded as such, and charged, before it is sent again.

        Why not, where the money does not reach for another: then the record is staged, to be written with the end.
        """
        trace_id = self.trace.trace_id
        recovered = trace_id in self.ex.recovered
        for _ in range(self.ex.source.redispatches(self.trace, recovered=recovered)):
            reach("before_redispatch_record")
            self.spend(self.reserved)
            self.ex.writer.attempt(
                Attempt(
                    attempt=self.trace.made,
                    backoff_ms=None,
                    code=None,
                    cost_exact=str(self.reserved),
                    ended_at=None,
                    facts=None,
                    fence=self.fence,
                    kind="redispatch",
                    ordinal=len(self.trace.attempts),
                    prev=self.trace.attempts_head,
                    request_id=None,
                    response=None,
                    retry_after_ms=None,
                    side_effects=[],
                    started_at=None,
                    trace_id=trace_id,
                )
            )
            refusal = self.out_of_money()
            if refusal is not None:
                return refusal
            await self.ex.writer.flush()
            reach("after_redispatch_record")
            if self.ex.listeners:
                self.ex.tell_now(
                    Fact(
                        kind="redispatch", run_id=self.ex.run_id, step_id=self.step.step_id,
                        step_index=self.step.index, attempt=self.trace.made, skill_id=self.step.skill_id,
                    )
                )  # fmt: skip
        self.ex.recovered.discard(trace_id)
        return None

    @property
    def was_in_doubt(self) -> bool:
        return self.trace.trace_id in self.ex.recovered

    @property
    def fence(self) -> int:
        lease = self.ex.writer.lease
        return 1 if lease is None else lease.token

    async def attempt(self, number: int) -> AttemptResult:
        try:
            self.ex.keep_lease()
        except StoreError as error:
            self.go_on(error)
        reach("before_dispatch")
        try:
            return await self.ex.source.attempt(self.attempt_call(number))
        finally:
            reach("after_dispatch")

    def go_on(self, error: StoreError) -> None:
        unrecorded.go_on(self.ex, self.trace, self.step, self.parameters, error)

    def attempt_call(self, number: int) -> AttemptCall:
        call = self.trace.call
        assert call is not None
        return AttemptCall(
            run_id=self.ex.run_id,
            original_run_id=self.ex.original_run_id,
            trace_id=self.trace.trace_id,
            step=self.step,
            parameters=self.parameters,
            attempt=number,
            idempotency_key=call.idempotency_key,
            context=self.ex.plan.context,
        )

    def code_of(self, result: AttemptResult) -> str:
        code = classify(result.facts)
        return self.step.success_code if code == "OK" else code

    def back_off(self, code: str, result: AttemptResult, number: int) -> int | None:
        """Milliseconds until the next attempt; None when this one was the last."""
        if code.startswith("OK"):
            return None
        call = self.trace.call
        assert call is not None
        meta = self.step.skill.metadata if self.step.skill is not None else None
        repeatable = may_repeat(
            tool_class=str(call.tool_class),
            honours_key=meta is None or meta.honours_key,
            repeatable=meta is not None and meta.tool_class is None and meta.idempotent,
            code=code,
            facts=result.facts,
        )
        if self.in_flight_elsewhere(result):
            return self.wait_for_the_first(number)
        if not (repeatable and should_retry(code, number, self.step.retry)):
            return None
        wait = calculate_backoff_ms(number, self.step.retry, self.ex.original_run_id, step_id=self.step.step_id)
        if result.retry_after_ms is None:
            return wait
        return max(wait, min(result.retry_after_ms, LONGEST_RETRY_AFTER_MS))

    def in_flight_elsewhere(self, result: AttemptResult) -> bool:
        """409 to a write that may have been sent before is that dispatch, still at work: no failure of ours."""
        return says_conflict(result.facts) and any(self.may_be_at_work(past) for past in self.trace.attempts)

    def may_be_at_work(self, past: Attempt) -> bool:
        if past.kind == "redispatch":
            return True
        assert self.trace.call is not None
        is_write = self.trace.call.tool_class != "read"
        return is_write and past.facts is not None and fate_unknown(str(past.code), past.facts)

    def wait_for_the_first(self, number: int) -> int:
        waited = sum(past.facts is not None and says_conflict(past.facts) for past in self.trace.attempts)
        if waited >= LONGEST_IN_FLIGHT:
            raise doubt.held(self, "the other side still answers 409: the first dispatch is in flight there")
        return calculate_backoff_ms(
            min(number, LONGEST_IN_FLIGHT), self.step.retry, self.ex.original_run_id, step_id=self.step.step_id
        )

    def record(self, result: AttemptResult, code: str, number: int, wait: int | None) -> tuple[str, int]:
        """Stage the attempt; (commitment, size) of the output."""
        self.ex.not_yet_recorded(self.trace.trace_id, number, result, self.step.redact_hints)
        # What a failed attempt returned is kept as its response. An output is what a step that succeeded gives: only
        # the attempt that ends a step has one.
        hints, redactor = self.step.redact_hints, self.ex.book.redactor
        value = result.output if code.startswith("OK") else None
        output = self.ex.book.put(value, hints=hints) if wait is None else ("", 0)
        response = output
        if result.response is not SAME or value is not result.output or wait is not None:
            response = self.ex.book.put(result.output if result.response is SAME else result.response, hints=hints)
        cost = result.cost_exact
        if cost is None:
            cost = settle(self.rate, self.ex.prices, self.reserved, code, result.facts).exact
        self.spend(cost)
        self.ex.writer.attempt(
            Attempt(
                attempt=number,
                backoff_ms=wait,
                code=code,
                cost_exact=str(cost),
                ended_at=result.ended_at,
                facts=self.shown_facts(result.facts),
                fence=self.fence,
                kind="attempt",
                ordinal=len(self.trace.attempts),
                prev=self.trace.attempts_head,
                request_id=None
                if result.request_id is None
                else reports.fitting(redactor.redact_text(result.request_id), reports.LONGEST_REQUEST_ID),
                response=response[0],
                retry_after_ms=result.retry_after_ms,
                side_effects=reports.bounded([self.shown_side_effect(number, *each) for each in result.side_effects]),
                started_at=result.started_at,
                trace_id=self.trace.trace_id,
            )
        )
        if self.ex.listeners:
            self.ex.tell(
                Fact(
                    kind="attempt", run_id=self.ex.run_id, step_id=self.step.step_id, step_index=self.step.index,
                    attempt=number, code=code, backoff_ms=wait, skill_id=self.step.skill_id,
                )
            )  # fmt: skip
        return output

    def spend(self, exact: int) -> None:
        """What the agent's other runs count too; a replay spends nothing."""
        if exact > 0 and self.ex.source.is_live(self.step):
            self.ex.writer.spend(self.ex.today(), self.ex.plan.plan.agent_id, self.rate.model or "", exact)

    def shown_facts(self, facts: Facts) -> Facts:
        """Facts stand in the chain; the words in them are another's."""
        if not facts.exceptions and facts.finish_reason is None:
            return facts
        mark, fit = self.ex.book.redactor.redact_text, reports.fitting
        links = tuple(
            replace(link, type=fit(mark(link.type), reports.LONGEST_TYPE, empty="unknown")) for link in facts.exceptions
        )
        reason = facts.finish_reason
        reason = None if reason is None else fit(mark(reason), reports.LONGEST_FINISH_REASON)
        return replace(facts, exceptions=links, finish_reason=reason) if links or reason is not None else facts

    def shown_side_effect(self, number: int, kind: str, target: str) -> SideEffect:
        mark, fit = self.ex.book.redactor.redact_text, reports.fitting
        return SideEffect(
            attempt=number,
            target=fit(mark(target), reports.LONGEST_TARGET),
            type=fit(mark(kind), reports.LONGEST_SIDE_EFFECT, empty="unknown"),
        )

    async def wait(self, wait_ms: int) -> bool:
        """The failed attempt is durable before anybody sleeps. True when the run was cancelled by the end of it."""
        reach("before_attempt_record")
        try:
            await self.ex.writer.flush()
        except StoreError as error:
            self.go_on(error)
        reach("after_attempt_record")
        if not self.ex.source.is_live(self.step):
            return False
        reach("in_backoff")
        return await self.ex.sleep_until_cancelled(wait_ms / 1000)

    # -- the end ---------------------------------------------------------------------------------------------------

    def out_of_money(self) -> Refusal | None:
        """Why nothing more may be dispatched; the first dispatch was the gate's business."""
        if not self.trace.attempts or self.ex.source.person_said(self.trace) is not None:
            return None  # where the record tells of another end, money was not asked about
        return self.not_affordable()

    def not_affordable(self) -> Refusal | None:
        """Why a dispatch may not be made, by what is spent and set apart now."""
        if self.ex.budget.has_no_limit:
            return None
        live = self.ex.source.is_live(self.step)
        day, on_model = self.ex.outside_spent(self.rate.model, self.trace.trace_id) if live else (NOTHING, NOTHING)
        _, refusal = budget.check(
            self.ex.budget,
            self.reserved,
            run=self.ex.ledger.spent(besides=self.trace.trace_id),
            step=Spent(self.trace.cost_exact),
            day=day,
            model=self.rate.model,
            model_spent=on_model,
        )
        if live or refusal is not None or not self.ex.budget.reaches_beyond_the_run:
            return refusal
        reason = self.ex.source.no_money_left(self.trace)  # of the day or the model: what others spent is served
        return None if reason is None else Refusal("budget", "ERR_BUDGET_EXCEEDED", reason, {"refused_by": "day"})

    def end(self, result: AttemptResult, code: str, output: tuple[str, int]) -> StructuredOutcome:
        good = code.startswith("OK")
        redactor = self.ex.book.redactor
        message = f"Step {self.step.step_id} succeeded" if good else redactor.redact_text(result.message or code)
        details: dict[str, object] = {}
        if result.details:
            details = cast("dict[str, object]", redactor.mark(dict(result.details), self.step.redact_hints))
        if not good and result.facts.http_status is not None:
            details["upstream_status"] = result.facts.http_status
        if self.ex.without_record:
            details |= unrecorded.remark(self.ex, self.step)
        outcome = self.outcome(
            "success" if good else "failure", code, message, details or None, latency_ms=result.latency_ms
        )
        effect_status: EffectStatus = "SUCCESS" if good else ("ERROR" if result.facts.exceptions else "FAILURE")
        self.stage_effect(outcome, effect_status, output)
        return with_output(outcome, result.output) if good else outcome

    def end_without_money(self, refusal: Refusal) -> StructuredOutcome:
        details: dict[str, object] = {"last_code": self.trace.attempts[-1].code, **refusal.details}
        outcome = self.outcome("failure", refusal.code, refusal.message, details, latency_ms=0)
        self.stage_effect(outcome, "FAILURE", self.ex.book.put(None))
        return outcome

    def end_cancelled(self, message: str) -> StructuredOutcome:
        """The call failed so far, and is not tried again."""
        details: dict[str, object] = {"last_code": self.trace.attempts[-1].code}
        outcome = self.outcome("failure", "ERR_CANCELLED", message, details, latency_ms=0)
        self.stage_effect(outcome, "FAILURE", self.ex.book.put(None))
        return outcome

    def outcome(
        self, status: OutcomeStatus, code: str, message: str, details: dict[str, object] | None, *, latency_ms: int
    ) -> StructuredOutcome:
        return StructuredOutcome(
            code=code,
            cost_cents=cents(self.trace.cost_exact),
            details=details,
            latency_ms=latency_ms,
            message=message,
            metadata=OutcomeMetadata(skill_id=self.step.skill_id, skill_version=str(self.step.skill_version)),
            observability=Observability(
                backend_retries=building.retries(self.trace), span_id=None, trace_id=self.trace.trace_id
            ),
            retryable=is_retryable(code),
            run_id=self.ex.run_id,
            side_effects=outcome_side_effects(self.trace),
            status=status,
            step_id=self.step.step_id,
            timestamp=self.ex.door.timestamp(),
        )

    def stage_effect(self, outcome: StructuredOutcome, status: EffectStatus, output: tuple[str, int]) -> None:
        payload = self.ex.book.put_outcome(outcome)
        logged = building.tool_effect(
            self.ex, self.trace, outcome, effect_status=status, output=output, outcome_payload=payload
        )
        self.ex.writer.entry(logged)
        self.ex.remember_output(self.step.step_id, output[0] if status == "SUCCESS" else None)
        reach("after_effect")


def says_conflict(facts: Facts) -> bool:
    """409, as a status or in a skill's own words."""
    return facts.http_status == 409 or classify(facts) == "ERR_HTTP_409"


def end_as_told(ex: Execution, trace: TraceFold, step: PlannedStep, said: PersonSaid) -> StructuredOutcome:
    """The end that the record tells of, where no attempt made it."""
    return doubt.end_undispatched(
        ex,
        trace,
        step,
        code=step.success_code if said.succeeded else said.code,
        message="as the record tells",
        details={},
        status="SUCCESS" if said.succeeded else "FAILURE",
        output=said.output,
    )


def make_dispatch(
    ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object], *, plain: bool = False
) -> Dispatch:
    rate = tariff(ex.plan.pins.prices, step.reference, parameters)
    return Dispatch(ex, trace, step, parameters, reserved_by(trace), rate, plain)
