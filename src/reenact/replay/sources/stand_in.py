"""Skills that are only served: what decisions need to know about them is taken from the record, no code is loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from reenact.contracts.artifacts import SupervisorDecision
from reenact.contracts.facts import Facts
from reenact.contracts.plan import Step, plan_from_document
from reenact.contracts.references import has_references
from reenact.contracts.skill import Resources, RiskLevel, SkillMetadata, ToolClass
from reenact.contracts.whole_plan import is_erased
from reenact.errors import EvidenceError, ReenactError, UnknownPrice
from reenact.journal.fold import TraceFold
from reenact.policy.classify import classify
from reenact.policy.cost import PICODOLLARS_PER_CENT, PriceTable
from reenact.policy.repeat import may_repeat
from reenact.policy.retry import should_retry
from reenact.policy.settle import FREE
from reenact.record.reader import RecordedStep
from reenact.record.recording import Recording
from reenact.runtime.plans.steps import Bound, PlannedStep, RunPlan
from reenact.skills.registry import Registry
from reenact.skills.schema.signature import Signature
from reenact.skills.skill import Skill

SERVED_PARTS = ("validate", "declared side effects", "duplicate", "estimate", "repeatable")
"""What is served instead of computed for a step whose skill is not there."""


class StandIn(Skill):
    """A recorded skill without its code. It decides as it did for this one step, and cannot be called."""

    def __init__(self, metadata: SkillMetadata, recorded: RecordedStep, fixed_cents: int) -> None:
        super().__init__(never_called, metadata, NO_SIGNATURE)
        self._recorded = recorded
        self._fixed_cents = fixed_cents

    def fits(self, parameters: dict[str, Any], /) -> bool:
        return not self.validate(parameters)

    def validate(self, _parameters: Mapping[str, Any], /) -> list[str]:
        refusal = refused_by(self._recorded.trace, "validate", "ERR_VALIDATION_FAILED")
        if refusal is None:
            return []
        problems = details_of(self._recorded).get("problems")
        return [str(item) for item in problems] if isinstance(problems, list) and problems else ["as recorded"]

    @property
    def declared_class(self) -> ToolClass | None:
        """Where a registry refused the call for it, the refusal says it; else it need not be known."""
        refused = refused_by(self._recorded.trace, "permission", "TOOL_CLASS_DECLARATION_MISMATCH")
        said = None if refused is None else details_of(self._recorded).get("declared")
        return "read" if said == "read" else "write" if said == "write" else None

    def tool_class_of(self, _parameters: Mapping[str, Any], /) -> ToolClass:
        call = self._recorded.trace.call
        if call is None:
            return "read" if details_of(self._recorded).get("called_as") == "read" else "write"
        return "read" if call.tool_class == "read" else "write"

    def risk_level_of(self, _parameters: Mapping[str, Any], /) -> RiskLevel:
        request = self._recorded.trace.request
        return "HIGH_RISK" if request is None else request.risk_level

    def estimate(self, _parameters: Mapping[str, Any], _prices: PriceTable | Mapping[str, Any], /) -> int:
        trace = self._recorded.trace
        if refused_by(trace, "budget", "ERR_LLM_INVALID_MODEL") is not None:
            model = str(details_of(self._recorded).get("model", ""))
            raise UnknownPrice(f"no price is known for the model {model!r}", model=model)
        required = decision_meta(trace).get("required_exact")
        return int(required) if isinstance(required, str) else self._fixed_cents * PICODOLLARS_PER_CENT


class ReplayPlan(RunPlan):
    """A pinned plan bound to the skills that are there, and to stand-ins for those that are only served."""

    def __init__(self, recording: Recording, document: dict[str, object], registry: Registry) -> None:
        super().__init__(plan_from_document(document)[0], document, registry)
        self._recording = recording
        self.literal = self.by_turn = recording.record.kind == "session"
        self._repeated = repeated_traces(recording)
        self._repetitions = repetitions(recording)
        self._only: set[str] | None = None
        self._cancelled = recording.status == "cancelled" and document is recording.document

    def __len__(self) -> int:
        """Somebody who cancelled the recorded run is served: its replay makes no step that it did not make."""
        planned = super().__len__()
        return min(planned, len(self._recording.steps)) if self._cancelled else planned

    def step(self, number: int) -> PlannedStep:
        """With the turn in which a session called it."""
        step = super().step(number)
        trace = self._recording.trace(step.step_id)
        turn = None if trace is None else trace.meta("turn")
        return replace(step, turn=turn) if isinstance(turn, int) and turn else step

    def bound(self, step: Step) -> Bound:
        """Each step for itself: what stands in for a skill decides as in that step."""
        return self.bind_step(step)

    def skill(self, step: Step) -> Skill | None:
        found = super().skill(step)
        recorded = self._recording.steps.get(step.step_id)
        if recorded is None or never_existed(recorded.trace):
            return found
        erased = is_erased(step.parameters) or (has_references(step.parameters) and recorded.parameters() is None)
        if found is not None and not erased:
            return found  # it decides again; but not about arguments that were erased
        if self._only is not None and step.step_id not in self._only:
            return found
        return self._stand_in(step, recorded)

    def serve_only(self, step_ids: set[str] | None) -> None:
        """Let stand-ins act for these steps and no others; None for all. Live steps need their code."""
        self._only = step_ids

    def refuse_erased(self, live: Collection[str]) -> None:
        """Of steps that are to be executed: there is nothing left to call one with whose arguments were erased."""
        for step in self.plan.steps:
            if step.step_id in live and is_erased(step.parameters):
                raise EvidenceError(
                    f"the arguments of step {step.step_id} of session {self._recording.run_id} were erased; it can be "
                    "served from the record, and cannot be executed again"
                )

    def is_stand_in(self, step_id: str) -> bool:
        step = self.plan.steps[self.index[step_id]]
        return isinstance(self.skill(step), StandIn)

    def _stand_in(self, step: Step, recorded: RecordedStep) -> StandIn:
        reference = f"{step.skill_id}@{step.skill_version}"
        price = self.pins.prices.skills.get(reference, FREE)
        fixed = price.cost_estimate_cents
        metadata = SkillMetadata(
            skill_id=step.skill_id,
            name=step.skill_id,
            version=str(step.skill_version),
            input_schema={},
            output_schema={},
            cost_estimate_cents=fixed,
            cost_model=price.cost_model,
            honours_key=self._was_repeatable(step, recorded.trace),
            idempotent=recorded.trace.trace_id in self._repeated,
            resources=self._touched(recorded.trace),
            side_effects=refused_side_effects(recorded),
            tool_class="write",
        )
        return StandIn(metadata, recorded, fixed)

    def _touched(self, trace: TraceFold) -> Resources:
        """What a call reads or writes, as far as it stands in its request: that does not say which of the two.

        So a write counts as one of all it names, but for what was left out later as read before the write already.
        """
        names = recorded_resources(trace)
        if not names or trace.call is None or trace.call.tool_class == "read":
            return Resources(reads=literally(names))
        kept = (
            recorded_resources(first) for first, again in self._repetitions.get(trace.meta("turn"), ())
            if first.step_index < trace.step_index < again.step_index
        )  # fmt: skip
        return Resources(writes=literally(names.difference(*kept)))

    def _was_repeatable(self, step: Step, trace: TraceFold) -> bool:
        """False where an attempt ended its step although the retry policy would have gone on."""
        results = [attempt for attempt in trace.attempts if attempt.kind == "attempt"]
        if not results or results[-1].backoff_ms is not None or trace.call is None:
            return True
        last = results[-1]
        facts = last.facts or Facts()
        code = classify(facts)
        if code.startswith("OK") or not should_retry(code, last.attempt, self.retry_policy(step)):
            return True
        # Where even a repeatable call would not have been sent again, the record says nothing about the skill.
        kind = str(trace.call.tool_class)
        return not may_repeat(tool_class=kind, honours_key=True, repeatable=True, code=code, facts=facts)


def never_called() -> NoReturn:
    raise ReenactError("a skill that is only served was called")


NO_SIGNATURE = Signature(
    takes_context=False,
    names=(),
    parameters_type=msgspec.defstruct("Parameters", []),
    input_schema={},
    output_schema={},
)


def decision_meta(trace: TraceFold) -> dict[str, object]:
    decided = trace.decision
    return dict(decided.meta) if isinstance(decided, SupervisorDecision) and isinstance(decided.meta, dict) else {}


def refused_by(trace: TraceFold, gate: str, code: str | None = None) -> str | None:
    """The code with which this gate refused the step; None when it did not."""
    meta = decision_meta(trace)
    if trace.state != "DENIED" or meta.get("gate") != gate:
        return None
    return str(meta["code"]) if code in (None, meta["code"]) else None


def never_existed(trace: TraceFold) -> bool:
    """The skill was unknown in the recorded run too."""
    return refused_by(trace, "validate", "ERR_SKILL_NOT_FOUND") is not None


def details_of(step: RecordedStep) -> dict[str, object]:
    """What a refusal said about itself; empty where it was erased."""
    commitment = decision_meta(step.trace).get("details")
    value = step.value(commitment, "supervisor_decision") if isinstance(commitment, str) else None
    return value if isinstance(value, dict) else {}


def refused_side_effects(step: RecordedStep) -> tuple[str, ...]:
    """The declared side effects as far as a refusal tells them; a step that passed need not have any."""
    code = refused_by(step.trace, "permission")
    if code == "ERR_QUOTA_EXCEEDED":
        return ("as_recorded",)
    named = details_of(step).get("side_effects") if code == "ERR_PERMISSION_DENIED" else None
    return tuple(str(item) for item in named) if isinstance(named, list) else ()


def recorded_resources(trace: TraceFold) -> frozenset[str]:
    """The resources that a call's skill declared; where it declared none, a request names the skill alone."""
    named = frozenset() if trace.request is None else frozenset(item.id for item in trace.request.resources)
    return named - {str(trace.meta("skill_id"))}


def literally(names: frozenset[str]) -> tuple[str, ...]:
    """As templates that hold nothing to fill in."""
    return tuple(name.replace("{", "{{").replace("}", "}}") for name in sorted(names))


def repetitions(recording: Recording) -> dict[object, list[tuple[TraceFold, TraceFold]]]:
    """By turn: (the call that was made, the one that was left out as its repetition)."""
    made = {step.trace.trace_id: step.trace for step in recording.steps.values()}
    found: dict[object, list[tuple[TraceFold, TraceFold]]] = {}
    for again in made.values():
        first = made.get(str(decision_meta(again).get("duplicate_of")))
        if first is not None:
            found.setdefault(again.meta("turn"), []).append((first, again))
    return found


def repeated_traces(recording: Recording) -> frozenset[str]:
    """Calls that were left out as repetitions, and those that they repeat. Of the others the record says nothing."""
    refused = [step.trace for step in recording.steps.values() if refused_by(step.trace, "duplicate") is not None]
    named = {decision_meta(trace).get("duplicate_of") for trace in refused}
    return frozenset({*(trace.trace_id for trace in refused), *(str(name) for name in named if name is not None)})
