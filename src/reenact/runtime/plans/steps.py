"""A plan as the runtime sees it: for each step the skill, the policies, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from reenact.contracts.artifacts import Resource, RiskLevel, ToolClass
from reenact.contracts.plan import Plan, Step
from reenact.contracts.plan_rules import PinnedRetry
from reenact.contracts.skill import split_skill_id
from reenact.errors import SkillNotFound
from reenact.policy.retry import RetryPolicy, merge_retry
from reenact.skills.registry import Registry
from reenact.skills.resources import resources_of
from reenact.skills.skill import Skill
from reenact.values.ids import project_uuid7

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
    turn: int = 0

    @property
    def reference(self) -> str:
        return f"{self.skill_id}@{self.skill_version}"

    @property
    def redact_hints(self) -> tuple[str, ...]:
        return () if self.skill is None else self.skill.metadata.redact

    def tool_class(self, parameters: Mapping[str, object]) -> ToolClass:
        """A skill that declares no class, or that nobody knows, counts as a write."""
        return "write" if self.skill is None else self.skill.tool_class_of(parameters)

    def risk_level(self, parameters: Mapping[str, object]) -> RiskLevel:
        return "HIGH_RISK" if self.skill is None else self.skill.risk_level_of(parameters)

    def resources(self, parameters: Mapping[str, object]) -> list[Resource]:
        declared = None if self.skill is None else self.skill.metadata.resources
        if self.skill is None or declared is None or not (declared.reads or declared.writes):
            return [Resource(id=self.skill_id, kind="service")]
        filled = resources_of(self.skill.metadata, parameters)
        return [Resource(id=name, kind="service") for name in sorted({*filled.reads, *filled.writes})]

    @property
    def success_code(self) -> str:
        return SUCCESS_CODES.get(self.skill_id, "OK")


SUCCESS_CODES = {
    "http_call": "OK_HTTP_CALL",
    "llm_invoke": "OK_LLM_INVOKE",
    "json_transform": "OK_JSON_TRANSFORM",
}


class Bound(Struct, frozen=True, kw_only=True):
    """What every call of a skill has in a plan whose step says nothing else."""

    server: str
    tool: str
    on_error: str
    retry: RetryPolicy
    timeout_ms: int | None
    definition_digest: str | None


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
        self.literal = False
        """A session's calls are taken as they are: nothing in them refers to another step."""

    def __len__(self) -> int:
        return len(self.plan.steps)

    def step(self, number: int) -> PlannedStep:
        step = self.plan.steps[number]
        skill = self.skill(step)
        bound = self._bound.get((step.skill_id, step.skill_version)) or self._bind(step)
        return PlannedStep(
            index=number,
            step_id=step.step_id,
            skill_id=step.skill_id,
            skill_version=step.skill_version,
            server=bound.server,
            tool=bound.tool,
            parameters=step.parameters,
            on_error=step.on_error or bound.on_error,
            retry=bound.retry if step.retry is None else self.retry_policy(step),
            timeout_ms=step.timeout_ms
            or bound.timeout_ms
            or (DEFAULT_TIMEOUT_MS if skill is None else skill.metadata.timeout_ms),
            caller_key=step.idempotency_key,
            skill=skill,
            definition_digest=bound.definition_digest,
        )

    def _bind(self, step: Step) -> Bound:
        context = self.plan.context
        server, tool = split_skill_id(step.skill_id)
        bound = self._bound[step.skill_id, step.skill_version] = Bound(
            server=server,
            tool=tool,
            on_error=context.on_error or "abort",
            retry=merge_retry(context.retry, self._pinned_retry(step)),
            timeout_ms=context.timeout_ms,
            definition_digest=self.pins.skills.get(f"{step.skill_id}@{step.skill_version}"),
        )
        return bound

    def skill(self, step: Step) -> Skill | None:
        return None if step.skill_version is None else self.named(step.skill_id, step.skill_version)

    def named(self, skill_id: str, version: str) -> Skill | None:
        try:
            return self.registry.resolve(skill_id, version)
        except SkillNotFound:
            return None

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


def context_mapping(document: dict[str, object]) -> dict[str, object]:
    """The plan's context as skills see it: without the pins, whose salt is nobody's business."""
    context = document.get("context")
    return {key: value for key, value in context.items() if key != "pins"} if isinstance(context, dict) else {}
