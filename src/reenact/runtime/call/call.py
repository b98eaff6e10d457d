"""Drive a trace: perform the output of its state until the state is terminal. Fresh and crashed alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import (
    EncryptedReference,
    UnresolvedReference,
    has_encrypted,
    has_references,
    resolve,
    unescape,
)
from reenact.errors import StoreError, UnknownPrice
from reenact.journal.fold import TraceFold
from reenact.policy.budget import NO_AMOUNTS, LedgerDecision, Spent
from reenact.policy.cost import cents
from reenact.policy.redaction import holds_mark
from reenact.policy.settle import tariff
from reenact.record.outcomes import denied_outcome_of, outcome_of, with_output
from reenact.runtime.call import artifacts as building
from reenact.runtime.call import authorize as keys
from reenact.runtime.call import unrecorded
from reenact.runtime.call.dispatch import make_dispatch
from reenact.runtime.effects.secrets import FILE_VARIABLE
from reenact.runtime.gates import budget, permission, supervisor, validate
from reenact.runtime.gates.duplicate import Claim, DuplicateGate, touched
from reenact.runtime.gates.verdict import Approval, NeedsApproval, Refusal, Verdict
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution, Fact, Parked
from reenact.runtime.writing.redaction import KEY_VARIABLE


@dataclass(slots=True)
class Call:
    """One step on its way: the trace it leaves, and what is known about it beyond the trace."""

    ex: Execution
    step: PlannedStep
    parameters: dict[str, object]
    trace: TraceFold = field(init=False)
    unresolved: str | None = None
    plain: bool = False
    """Known to hold no secret, no mark of one and no key that begins with `$`: nothing to look for in them."""
    gate: DuplicateGate | None = None
    """That of the call's own turn: the run may have come to the next one before the call ends."""
    claim: Claim | None = None

    async def drive(self) -> StructuredOutcome:
        """Until terminal. What the last state staged is not yet durable when this returns."""
        if self.gate is not None and self.trace.state != "PENDING":
            self.claim = self.gate.hold(self.step, self.parameters, self.trace.trace_id)
        try:
            outcome = await self.until_terminal()
        except BaseException:
            if self.gate is not None and self.claim is not None:
                self.gate.release(self.claim)
            raise
        if self.ex.duplicates is not None:
            self.remember(outcome)
        if self.ex.listeners:
            self.ex.tell(
                Fact(
                    kind="step_ended", run_id=self.ex.run_id, step_id=self.step.step_id, step_index=self.step.index,
                    code=outcome.code, status=outcome.status, outcome=self.shown(outcome), skill_id=self.step.skill_id,
                    tool_call_id=self.tool_call_id,
                )
            )  # fmt: skip
        return outcome

    def remember(self, outcome: StructuredOutcome) -> None:
        """A write is noticed by the turn that the run has come to, a success counts in the call's own."""
        current = self.ex.duplicates
        if current is not None and current is not self.gate and outcome.ok:
            current.forget(touched(self.step, self.parameters)[1])
        if self.gate is not None:
            self.gate.record(self.step, self.parameters, self.trace.trace_id, outcome, self.claim)

    def shown(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """What listeners may print, count and send away."""
        return self.ex.book.redactor.mark_outcome(outcome, self.step.redact_hints)

    async def until_terminal(self) -> StructuredOutcome:
        outcome: StructuredOutcome | None = None
        while outcome is None:
            state = self.trace.state
            if state == "PENDING":
                outcome = await self.decide()
            elif state == "AUTHORIZED":
                outcome = await self.persist()
            elif state == "EXECUTING":
                outcome = await self.execute()
            else:
                outcome = recorded_outcome(self.ex, self.trace)
        return outcome

    async def persist(self) -> StructuredOutcome | None:
        try:
            return await keys.persist_call(self.ex, self.trace, self.step, self.parameters)
        except StoreError as error:
            if self.trace.state != "EXECUTING":
                raise
            # No transaction has set its money apart: calls that were approved side by side count each other here.
            if make_dispatch(self.ex, self.trace, self.step, self.parameters).not_affordable() is not None:
                raise
            self.go_on(error)  # the call is staged all the same
            return None

    async def make_durable(self) -> None:
        """What is staged; a read may go on without that where its host said so."""
        try:
            await self.ex.writer.flush()
        except StoreError as error:
            self.go_on(error)

    def go_on(self, error: StoreError) -> None:
        unrecorded.go_on(self.ex, self.trace, self.step, self.parameters, error)

    @property
    def tool_call_id(self) -> str | None:
        return None if self.trace.call is None else self.trace.call.tool_call_id

    # -- PENDING ---------------------------------------------------------------------------------------------------

    async def decide(self) -> StructuredOutcome | None:
        if self.step.caller_key is not None:
            await self.ex.writer.flush()  # a key in flight may have to be waited for
        try:
            verdict = await self.ask_gates()
            if isinstance(verdict, NeedsApproval):
                self.ex.writer.status("waiting")
                await self.park()
                raise Parked("waiting", verdict.reason)
            logged = building.decision(self.ex, self.trace, self.step, self.parameters, verdict)
            self.ex.writer.entry(logged)
        finally:
            if self.ex.external is not None:
                self.ex.external.release(self.trace.trace_id)
        if isinstance(verdict, Refusal):
            self.ex.remember_output(self.step.step_id, None)
            return denied_outcome_of(self.trace, {"message": verdict.message, **verdict.details})
        return None

    async def ask_gates(self) -> Verdict:
        """validate → permission → duplicate → budget → supervisor, and the first no counts."""
        refusal = (
            self.ex.source.given_up(self.step)
            or self.model_mistake()
            or validate.check(self.step, self.unescaped(), self.ex.plan.registry, self.unresolved)
            or self.literal_secret()
            or self.missing_secret()
            or permission.check(self.step, self.ex.context, self.parameters)
        )
        if refusal is None and self.ex.external is not None:
            refusal = await self.ex.external.check(self.step, self.trace)
        if refusal is None and self.gate is not None:
            refusal = await self.duplicate(self.gate)
        if refusal is not None:
            return refusal
        required = self.estimate()
        if isinstance(required, Refusal):
            return required
        if self.ex.budget.has_no_limit:
            return with_amounts(await self.supervise(), {**NO_AMOUNTS, "required_exact": str(required)})
        return await self.within_budget(required)

    def unescaped(self) -> dict[str, object]:
        """The parameters as the skill gets them, but for secrets, which stay references."""
        if self.plain:
            return self.parameters
        found = unescape(self.parameters, None)
        assert isinstance(found, dict)
        return found

    def model_mistake(self) -> Refusal | None:
        return None if self.plain else validate.model_mistake(self.step, self.parameters, self.ex.plan.registry)

    def literal_secret(self) -> Refusal | None:
        """A secret that stands in the arguments would reach the disk: refused, unless it can be sealed."""
        redactor = self.ex.book.redactor
        if self.plain and self.step.caller_key is None:
            return None
        rules = redactor.rules(self.step.redact_hints)
        if self.step.caller_key is not None and rules.find(self.step.caller_key):
            return Refusal("validate", "ERR_VALIDATION_FAILED", "idempotency_key looks like a secret; take another")
        places = [] if redactor.can_encrypt else rules.find(self.parameters)
        if not places:
            return None
        return Refusal(
            "validate", "ERR_VALIDATION_FAILED", literal_advice(self.ex, places[0]), {"secret_at": places[:20]}
        )

    def missing_secret(self) -> Refusal | None:
        if self.plain and self.ex.source.is_live(self.step):
            return None
        name = self.ex.source.missing_secret(self.step, self.parameters)
        if name is None:
            return None
        advice = f"put it into the environment or into the file named by {FILE_VARIABLE}"
        message = f"the secret {name} is not set; {advice}"
        return Refusal("validate", "ERR_SECRET_UNAVAILABLE", message, {"secret": name})

    async def duplicate(self, gate: DuplicateGate) -> Refusal | None:
        found = await gate.check(self.step, self.parameters, self.trace.trace_id)
        if isinstance(found, Refusal):
            return found
        self.claim = found
        return None

    def estimate(self) -> int | Refusal:
        """What the call may cost."""
        skill = self.step.skill
        assert skill is not None
        try:
            return skill.estimate(self.unescaped(), self.ex.prices)
        except UnknownPrice as error:
            return Refusal("budget", "ERR_LLM_INVALID_MODEL", str(error), {"model": error.model})

    async def within_budget(self, required: int) -> Verdict:
        """The budget's word, then the supervisor's. While a function is asked others go on: then the budget's again."""
        voted = self.trace.trace_id in self.ex.fold.votes
        asked = self.ex.host_supervisor is not None or not (voted or self.ex.supervisor is None)
        others_go_on = asked and self.ex.source.is_live(self.step)
        try:
            if others_go_on:
                await self.ex.ledger.keep(self.trace.trace_id, required)
            decision, refusal = self.money(required)
            verdict = refusal or await self.supervise()
        finally:
            self.ex.ledger.release(self.trace.trace_id)  # nobody else runs before the decision stands in its place
        if others_go_on and isinstance(verdict, Approval):
            decision, refusal = self.money(required)
            verdict = refusal or verdict
        if decision.alert or decision.warning:
            self.warn(decision)
        return with_amounts(verdict, decision.meta())

    def money(self, required: int) -> tuple[LedgerDecision, Refusal | None]:
        rate = tariff(self.ex.plan.pins.prices, self.step.reference, self.parameters)
        day, on_model = self.ex.source.served_spending(self.step) or self.ex.outside_spent(rate.model)
        return budget.check(
            self.ex.budget,
            required,
            run=self.ex.ledger.spent(),
            step=Spent(),
            day=day,
            model=rate.model,
            model_spent=on_model,
        )

    def warn(self, decision: LedgerDecision) -> None:
        """At the alert threshold, or over a soft limit: somebody should know, and the call goes on."""
        reason = decision.reason if decision.warning else f"at {self.ex.budget.alert_percent} % of a budget or beyond"
        self.ex.tell(
            Fact(
                kind="budget_alert", run_id=self.ex.run_id, step_id=self.step.step_id, step_index=self.step.index,
                message=reason,
            )
        )  # fmt: skip

    async def supervise(self) -> Verdict:
        served = self.ex.source.served_decision(self.step)
        if served is not None:
            return served
        mode, host = self.ex.context.supervisor, self.ex.host_supervisor
        vote = self.ex.fold.votes.get(self.trace.trace_id)
        if vote is None and host is None:
            if self.trace.trace_id in self.ex.fold.parked:
                # Whoever asked may not be here; the question stands until it is answered.
                return NeedsApproval(f"a person was asked about step {self.step.step_id} and has not answered")
            if mode == "auto":
                return Approval("auto")
        named = None if vote is not None else self.ex.supervisor
        request = self.trace.request
        assert request is not None
        proposal = supervisor.Proposal(
            run_id=self.ex.run_id,
            step_id=self.step.step_id,
            skill_id=self.step.skill_id,
            skill_version=self.step.skill_version,
            risk_level=request.risk_level,
            parameters=self.unescaped(),
            agent_id=self.ex.plan.plan.agent_id,
            goal=self.ex.plan.plan.goal,
            spent_cents=cents(self.ex.fold.spent_exact),
        )
        if named is not None or host is not None:
            await self.ex.writer.flush()  # a callable may take its time: what is known so far is durable first
        limit_s = self.ex.supervisor_limit_s
        return await supervisor.decide(proposal, mode, vote=vote, named=named, host=host, limit_s=limit_s)

    async def park(self) -> None:
        """What is known is durable, and a checkpoint says where the trace stands."""
        self.ex.writer.checkpoint(self.trace)
        await self.ex.writer.flush()

    # -- EXECUTING -------------------------------------------------------------------------------------------------

    async def execute(self) -> StructuredOutcome:
        await self.make_durable()  # before it is dispatched
        if self.ex.cancel_note is not None:
            refused = keys.refuse(self.ex, self.trace, self.step, "ERR_CANCELLED", "the run was cancelled")
            keys.finish(self.ex, self.trace, self.step, refused)
            return refused
        if self.ex.listeners:
            self.ex.tell_now(
                Fact(
                    kind="step_started", run_id=self.ex.run_id, step_id=self.step.step_id, step_index=self.step.index,
                    skill_id=self.step.skill_id, tool_call_id=self.tool_call_id,
                )
            )  # fmt: skip
        try:
            outcome = await make_dispatch(self.ex, self.trace, self.step, self.parameters, plain=self.plain).run()
        except Parked:
            await self.park()
            raise
        keys.finish(self.ex, self.trace, self.step, outcome)
        return outcome


def with_amounts(verdict: Verdict, exact: dict[str, str | None]) -> Verdict:
    """An approval says what it was decided on."""
    return Approval(verdict.by, vote=verdict.vote, exact=exact) if isinstance(verdict, Approval) else verdict


def literal_advice(ex: Execution, place: str) -> str:
    """What to write instead: a plan names the secret where it stands, the host of a session binds it."""
    instead = f'secrets={{"{place}": "NAME"}}' if ex.plan.literal else '{"$secret": "NAME"} there'
    return (
        f"{place} holds or held a secret, which is not written to disk: write {instead}, "
        f"or set {KEY_VARIABLE} so that it can be sealed"
    )


def start(ex: Execution, step: PlannedStep) -> Call:
    """A fresh step: its parameters resolved, its request staged."""
    opened, unresolved = ex.book.redactor.decrypt(step.parameters), None
    assert isinstance(opened, dict)
    parameters = opened
    content, plain = ex.book.content_of(parameters, step.redact_hints)
    if not ex.plan.literal and (not plain or b"{{" in content) and has_references(parameters):
        earlier = {name: number for name, number in ex.plan.index.items() if number < step.index}
        try:
            resolved = resolve(parameters, earlier, ex.output_of)
            assert isinstance(resolved, dict)
            parameters = resolved
        except UnresolvedReference as error:
            if isinstance(error, EncryptedReference) and ex.source.is_live(step):
                raise still_encrypted(step) from None
            served = ex.source.served_parameters(step)
            unresolved = str(error) if served is None else None
            parameters = parameters if served is None else served
        content, plain = ex.book.content_of(parameters, step.redact_hints)
    if not plain and has_encrypted(parameters) and ex.source.is_live(step):
        raise still_encrypted(step)
    call = Call(ex, step, parameters, unresolved=unresolved, plain=plain, gate=ex.duplicates)
    call.trace = ex.writer.entry(building.request(ex, step, parameters, ex.book.put_content(content)[0]))
    return call


def still_encrypted(step: PlannedStep) -> Parked:
    return Parked("held", f"step {step.step_id} needs a value that is sealed: set {KEY_VARIABLE} to go on")


def resume(ex: Execution, trace: TraceFold, step: PlannedStep, *, near: int | None = None) -> Call:
    """A step that a crash or a wait left open: its parameters are what was recorded, not what is computed again."""
    assert trace.request is not None
    commitment = str(trace.request.proposal.args["$commit"])
    try:
        parameters = ex.book.get(commitment, near=near)
    except LookupError:
        raise Parked("held", f"step {step.step_id}: its arguments are gone; nothing can be dispatched") from None
    assert isinstance(parameters, dict)
    if ex.source.is_live(step) and trace.state != "PENDING" and holds_mark(parameters):
        raise Parked("held", f"step {step.step_id}: a secret was taken out of its arguments; nothing can be dispatched")
    # An envelope that holds the parameters as planned says that a reference in them led nowhere.
    as_planned = parameters == step.parameters and has_references(step.parameters) and not ex.plan.literal
    unresolved = "its reference could not be resolved" if as_planned else None
    call = Call(ex, step, parameters, unresolved=unresolved)
    call.trace = trace
    if ex.duplicates is not None and ex.duplicates.turn == step.turn:
        call.gate = ex.duplicates
    return call


def mark_parked(ex: Execution, trace: TraceFold) -> None:
    """A checkpoint for a call that was sent and is left open. One in PENDING says that a person was asked."""
    if trace.state == "EXECUTING":
        ex.writer.checkpoint(trace)


def hold_without_skill(ex: Execution, step: PlannedStep, pinned: object) -> None:
    """A run that goes on where a skill is absent that it began with is not failed for that: somebody brings it.

    `pinned` is the definition that was recorded; without one the skill was never there, and the gate refuses it.
    """
    if step.skill is None and pinned is not None and ex.source.is_live(step):
        raise Parked(
            "held",
            f"step {step.step_id} needs the skill {step.reference}, which the run began with and which is not "
            "registered here; name its file with --skills",
        )
    hold_changed_skill(ex, step, pinned)


def hold_changed_skill(ex: Execution, step: PlannedStep, pinned: object) -> None:
    """What a skill declares decides what is sent again, so a run goes on with the declarations that it began with.

    A replay is made to run changed code: it tells what differed.
    """
    found = None if step.skill is None else step.skill.digest
    if found is None or found == pinned or not isinstance(pinned, str) or not ex.source.is_live(step):
        return
    if ex.fold.record is not None and ex.fold.record.mode == "live":
        raise Parked(
            "held",
            f"step {step.step_id} began with another declaration of the skill {step.reference}: {pinned[:12]} then, "
            f"{found[:12]} here. Bring that one back and give the changed one a version of its own, or end the run "
            f"with `reenact cancel {ex.run_id} --reason …`",
        )


def recorded_outcome(ex: Execution, trace: TraceFold) -> StructuredOutcome:
    """The outcome of a trace that is terminal already."""
    if trace.state == "DENIED":
        return denied_outcome_of(trace, {})
    outcome, output = outcome_of(ex.book, trace)
    return with_output(outcome, output) if outcome.ok else outcome
