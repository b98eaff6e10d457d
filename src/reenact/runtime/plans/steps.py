"""A plan as the runtime sees it: for each step the skill, the policies, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from reenact.contracts.artifacts import Resource, RiskLevel, ToolClass
from reenact.contracts.plan import Plan, Step
from reenact.contracts.plan_rules import PinnedRetry, SkillPrice
from reenact.contracts.skill import SkillMetadata, split_skill_id
from reenact.errors import SkillNotFound
from reenact.policy.cost import PriceTable
from reenact.policy.retry import RetryPolicy, merge_retry
from reenact.policy.settle import FREE
from reenact.runtime.plans.accepted import NOTHING_ACCEPTED, Accepted
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill
from reenact.values.ids import project_uuid7
from reenact.values.threads import once

DEFAULT_TIMEOUT_MS = 30_000


class PlannedStep(Struct, frozen=True, kw_only=True):
    """One call, with everything that its behaviour depends on."""

    index: int
    step_id: str
    skill_id: str
    skill_version: str | None
    server: str
    tool: str
    parameters: dict[str, object]
    on_error: str
    retry: RetryPolicy
    timeout_ms: int
    caller_key: str | None
    skill: Skill | None
    definition_digest: str | None
    reference: str
    """`id@version`."""
    success_code: str
    redact_hints: tuple[str, ...]
    """The fields that its skill marks secret."""
    touches: bool
    """Whether the duplicate gate has to know of it: it may not be repeated, or says what it reads and writes."""
    price: SkillPrice
    turn: int = 0
    lane: str | None = None
    """Of a call that its host has named; the name of any other says it."""

    def tool_class(self, parameters: Mapping[str, object]) -> ToolClass:
        """A skill that declares no class, or that nobody knows, counts as a write."""
        return "write" if self.skill is None else self.skill.tool_class_of(parameters)

    def risk_level(self, parameters: Mapping[str, object]) -> RiskLevel:
        return "HIGH_RISK" if self.skill is None else self.skill.risk_level_of(parameters)

    def resources(self, parameters: Mapping[str, object]) -> list[Resource]:
        declared = None if self.skill is None else self.skill.metadata.resources
        if self.skill is None or declared is None or not (declared.reads or declared.writes):
            return [Resource(id=self.skill_id, kind="service")]
        filled = self.skill.resources_of(parameters)
        return [Resource(id=name, kind="service") for name in sorted({*filled.reads, *filled.writes})]


SUCCESS_CODES = {
    "http_call": "OK_HTTP_CALL",
    "llm_invoke": "OK_LLM_INVOKE",
    "json_transform": "OK_JSON_TRANSFORM",
}


class Bound(Struct, frozen=True, kw_only=True):
    """What every call of a skill has in a plan whose step says nothing else."""

    server: str
    tool: str
    reference: str
    skill: Skill | None
    definition_digest: str | None
    on_error: str
    retry: RetryPolicy
    timeout_ms: int
    success_code: str
    redact_hints: tuple[str, ...]
    touches: bool
    price: SkillPrice

    def step(
        self,
        index: int,
        step_id: str,
        skill_id: str,
        skill_version: str | None,
        parameters: dict[str, object],
        *,
        on_error: str | None = None,
        retry: RetryPolicy | None = None,
        timeout_ms: int | None = None,
        caller_key: str | None = None,
        turn: int = 0,
        lane: str | None = None,
    ) -> PlannedStep:
        """A call of the skill; what it does not say is as bound."""
        return PlannedStep(
            index=index,
            step_id=step_id,
            skill_id=skill_id,
            skill_version=skill_version,
            server=self.server,
            tool=self.tool,
            parameters=parameters,
            on_error=on_error or self.on_error,
            retry=retry or self.retry,
            timeout_ms=timeout_ms or self.timeout_ms,
            caller_key=caller_key,
            skill=self.skill,
            definition_digest=self.definition_digest,
            reference=self.reference,
            success_code=self.success_code,
            redact_hints=self.redact_hints,
            touches=self.touches,
            price=self.price,
            turn=turn,
            lane=lane,
        )


class RunPlan:
    """A pinned plan bound to a registry. Steps are made when asked for, so that 10,000 of them cost no memory twice."""

    def __init__(self, plan: Plan, document: dict[str, object], registry: Registry) -> None:
        assert plan.context.pins is not None
        self.plan = plan
        self.document = document
        self.pins = plan.context.pins
        self.salt = bytes.fromhex(self.pins.salt)
        self.registry = registry
        self.plan_id = project_uuid7(plan.plan_id)
        self.agent_id = project_uuid7(plan.agent_id)
        self.index = {step.step_id: number for number, step in enumerate(plan.steps)}
        self._bound: dict[tuple[str, str | None], Bound] = {}
        self.context = context_mapping(document)
        self.is_session = False
        """Made call by call, and assembled when the session ends."""
        self.by_turn = False
        """A session's plan: what was called before counts as a duplicate within its turn."""
        self.turn = 0
        self.accepted: Accepted = NOTHING_ACCEPTED
        """The changed skills with which somebody lets this run go on."""
        self.carried_exact = 0
        """Picodollars of its budget that the runs which it continues have spent, or may still have to."""
        self.literal = False
        """A session's calls are taken as they are: nothing in them refers to another step."""

    def __len__(self) -> int:
        return len(self.plan.steps)

    @once
    def prices(self) -> PriceTable:
        """Of the models that the plan may ask."""
        return PriceTable.of(self.pins.prices)

    def step(self, number: int) -> PlannedStep:
        step = self.plan.steps[number]
        return self.bound(step).step(
            number,
            step.step_id,
            step.skill_id,
            step.skill_version,
            step.parameters,
            on_error=step.on_error,
            retry=None if step.retry is None else self.retry_policy(step),
            timeout_ms=step.timeout_ms,
            caller_key=step.idempotency_key,
        )

    def bound(self, step: Step) -> Bound:
        """What the plan says about all calls of the step's skill; made once for each skill."""
        named = (step.skill_id, step.skill_version)
        found = self._bound.get(named)
        if found is None:
            found = self._bound[named] = self.bind_step(step)
        return found

    def bind_step(self, step: Step) -> Bound:
        retry = merge_retry(self.plan.context.retry, self._pinned_retry(step))
        digest = self.pins.skills.get(f"{step.skill_id}@{step.skill_version}")
        return self.bind(step.skill_id, step.skill_version, self.skill(step), retry, digest)

    def bind(
        self, skill_id: str, version: str | None, skill: Skill | None, retry: RetryPolicy, digest: str | None
    ) -> Bound:
        server, tool = split_skill_id(skill_id)
        context = self.plan.context
        return Bound(
            server=server,
            tool=tool,
            reference=f"{skill_id}@{version}",
            skill=skill,
            definition_digest=digest,
            on_error=context.on_error or "abort",
            retry=retry,
            timeout_ms=context.timeout_ms or (DEFAULT_TIMEOUT_MS if skill is None else skill.metadata.timeout_ms),
            success_code=SUCCESS_CODES.get(skill_id, "OK"),
            redact_hints=() if skill is None else skill.metadata.redact,
            touches=skill is not None and touches(skill.metadata),
            price=self.pins.prices.skills.get(f"{skill_id}@{version}", FREE),
        )

    def skill(self, step: Step) -> Skill | None:
        return None if step.skill_version is None else self.named(step.skill_id, step.skill_version)

    def named(self, skill_id: str, version: str) -> Skill | None:
        try:
            return self.registry.resolve(skill_id, version)
        except SkillNotFound:
            return self.accepted.instead(skill_id, version, self.registry)

    def has_side_effects(self, reference: str, skill: Skill | None = None) -> bool:
        """Whether `id@version` declares side effects: as pinned, else as the skill says; of an unknown one, yes."""
        if self.pins.side_effects is not None and reference in self.pins.skills:
            return reference in self.pins.side_effects
        found = skill or self.named(*reference.split("@", 1))
        return found is None or bool(found.metadata.side_effects)

    def retry_policy(self, step: Step) -> RetryPolicy:
        """Step, then plan, then what was pinned for the skill when the run started."""
        return merge_retry(step.retry, self.plan.context.retry, self._pinned_retry(step))

    def _pinned_retry(self, step: Step) -> PinnedRetry:
        retry = self.pins.retry
        return retry.get(f"{step.skill_id}@{step.skill_version}") or retry["default"]


def touches(metadata: SkillMetadata) -> bool:
    return metadata.idempotent or bool(metadata.resources.reads or metadata.resources.writes)


def context_mapping(document: dict[str, object]) -> dict[str, object]:
    """The plan's context as skills see it: without the pins, whose salt is nobody's business."""
    context = document.get("context")
    return {key: value for key, value in context.items() if key != "pins"} if isinstance(context, dict) else {}
