"""The plan of a session: made call by call, and assembled when the session ends so that it can be run again."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UnsetType, convert, field, to_builtins
from msgspec.structs import replace

from reenact.contracts.artifacts import ActionRequest, Meta
from reenact.contracts.model_mistakes import NAMED
from reenact.contracts.plan import plan_from_document, plan_hash
from reenact.contracts.plan_rules import Hex64, PinnedRetry, PlanPart, SkillPrice, TokenPrice
from reenact.contracts.records import Event
from reenact.contracts.whole_plan import COMMIT
from reenact.errors import SkillNotFound
from reenact.journal.fold import TraceFold
from reenact.policy.cost import DEFAULT_PRICES
from reenact.policy.retry import merge_retry, policy_to_dict
from reenact.policy.settle import FREE
from reenact.policy.taxonomy import TAXONOMY_VERSION
from reenact.runtime.plans.pinning import limits_external_calls, price_of, price_row
from reenact.runtime.plans.steps import Bound, PlannedStep, RunPlan
from reenact.runtime.run import Run
from reenact.skills.registry import Registry
from reenact.skills.skill import Skill
from reenact.values.clock import Clock
from reenact.values.ids import uuid7_ms
from reenact.values.threads import build

Document = dict[str, object]


def opening(
    run_id: str,
    *,
    goal: str,
    agent_id: str,
    context: Document,
    clock: Clock,
    session: Document | None = None,
    policy: str | None = None,
) -> Document:
    """What a session knows when it begins; kept with its first turn, so that it can be resumed.

    `session` is what its host calls it, and what it continues.
    """
    pins: Document = {
        "taxonomy": TAXONOMY_VERSION,
        "prices": {"models": {}, "version": DEFAULT_PRICES.version, "skills": {}},
        "retry": {"default": policy_to_dict(merge_retry())},
        "skills": {},
        "salt": clock.random_bytes(32).hex(),
    }
    if policy is not None:
        pins["policy"] = policy
    return {
        "plan_id": run_id,
        "agent_id": agent_id,
        "goal": goal,
        "steps": [],
        "context": {**context, "pins": pins},
        **({} if session is None else {"session": session}),
    }


class PinnedSkill(PlanPart, frozen=True, kw_only=True):
    definition_digest: Hex64
    price: SkillPrice
    retry: PinnedRetry | None
    side_effects: bool


class Pinned(PlanPart, frozen=True, kw_only=True):
    """The payload of a `pinned` event: skills by `id@version`, and models by name, with what counts for them."""

    skills: dict[str, PinnedSkill] = field(default_factory=dict)
    models: dict[str, TokenPrice] = field(default_factory=dict)


class SessionPlan(RunPlan):
    """A plan that grows. What is pinned is pinned when a skill is first called, and stays."""

    def __init__(self, document: Document, registry: Registry) -> None:
        carried = carried_exact(document)
        document = {name: value for name, value in document.items() if name != "session"}
        plan, _ = plan_from_document(document, source="session")
        super().__init__(plan, document, registry)
        if limits_external_calls(plan) and self.pins.side_effects is None:
            self.pins = replace(self.pins, side_effects=[])
        self.literal = self.is_session = True
        self.carried_exact = carried
        self.secret_names: set[str] = set()
        """Of the secrets that its calls were bound to."""
        self.called: dict[tuple[str, str | None], Bound] = {}
        """By what callers call them, with or without a version: what was called once stays what it was."""
        self._prices = DEFAULT_PRICES.extended(plan.context.prices)
        self._new_pins = Pinned()
        """Those that stand in no record yet: whoever ends the session may know none of its skills."""

    def planned(
        self,
        *,
        index: int,
        step_id: str,
        skill_id: str,
        version: str | None,
        parameters: Document,
        turn: int,
        caller_key: str | None = None,
        lane: str | None = None,
    ) -> PlannedStep:
        """The step of one call. What a model got wrong about a tool's name is a call of no skill."""
        bound = self.called.get((skill_id, version)) if NAMED not in parameters else self.unknown(skill_id, version)
        if bound is None:
            bound = self.called[skill_id, version] = self.bound_skill(skill_id, version, parameters)
        if bound.skill is not None:
            version = bound.skill.metadata.version
            if bound.skill.metadata.cost_model == "tokens":
                self.pin(bound.skill, parameters)
        return bound.step(
            index,
            step_id,
            skill_id,
            version,
            parameters,
            on_error="continue",
            caller_key=caller_key,
            turn=turn,
            lane=lane,
        )

    def bound_skill(self, skill_id: str, version: str | None, parameters: Document) -> Bound:
        """The first call of a skill, which pins it."""
        skill = self.find(skill_id, version)
        if skill is None:
            return self.unknown(skill_id, version)
        self.pin(skill, parameters)
        retry = merge_retry(self.plan.context.retry, skill.metadata.retry)
        return self.bind(skill_id, skill.metadata.version, skill, retry, skill.digest)

    def unknown(self, skill_id: str, version: str | None) -> Bound:
        return self.bind(skill_id, version, None, merge_retry(self.plan.context.retry), None)

    def find(self, skill_id: str, version: str | None) -> Skill | None:
        try:
            return self.registry.highest(skill_id) if version is None else self.named(skill_id, version)
        except SkillNotFound:
            return None

    def add(self, skill: Skill) -> None:
        """A skill more for this session alone. It is pinned when it is first called."""
        self.registry = self.registry.extended([skill])
        self.called.pop((skill.skill_id, None), None)  # it may be what that name means from now on
        named = (skill.skill_id, skill.version)
        if named in self.called and self.called[named].skill is None:
            del self.called[named]

    def take(self, skill: Skill) -> None:
        """As `add`, of a function that is handed over with each call: what is called is the one that came last."""
        named = (skill.skill_id, skill.version)
        known = self.called.get(named)
        if known is None or known.skill is None or known.skill.digest != skill.digest:
            self.add(skill)
        elif known.skill is not skill:
            self.called[named] = replace(known, skill=skill)

    def pin(self, skill: Skill | None, parameters: Document) -> None:
        if skill is None:
            return
        reference = skill.metadata.reference
        if reference not in self.pins.skills:
            self.pins.skills[reference] = skill.digest
            if self.pins.side_effects is not None and skill.metadata.side_effects:
                self.pins.side_effects.append(reference)
            if skill.metadata.retry is not None:
                policy = policy_to_dict(merge_retry(skill.metadata.retry))
                self.pins.retry[reference] = PinnedRetry(**policy)
            self.pins.prices.skills[reference] = price_row(skill.metadata)
            self._new_pins.skills[reference] = PinnedSkill(
                definition_digest=skill.digest,
                price=self.pins.prices.skills[reference],
                retry=self.pins.retry.get(reference),
                side_effects=bool(skill.metadata.side_effects),
            )
        if skill.metadata.cost_model == "tokens":
            self.pin_model(skill.metadata.argument("model", parameters))

    def pin_model(self, model: object) -> None:
        models = self.pins.prices.models
        if isinstance(model, str) and model not in models:
            price = price_of(model, self._prices, uuid7_ms(self.plan.plan_id))  # as of its opening
            if price is not None:
                self._new_pins.models[model] = models[model] = price
                self.__dict__.pop("prices", None)  # made anew with this one in it

    def record_pins(self, run: Run) -> None:
        """Beside the call that pinned them."""
        new = self._new_pins
        if new.skills or new.models:
            self._new_pins = Pinned()
            data, ts = run.journal.book.put_as_it_is(to_builtins(new))[0], run.clock.timestamp()
            run.journal.event(Event(data=data, reason=None, trace_id=None, ts=ts, type="pinned", who=None))

    def pin_recorded(self, document: object) -> None:
        """What a `pinned` event of this session says."""
        said = convert(document, Pinned)
        for reference, skill in said.skills.items():
            if reference in self.pins.skills:
                continue
            self.pins.skills[reference] = skill.definition_digest
            self.pins.prices.skills[reference] = skill.price
            if skill.retry is not None:
                self.pins.retry[reference] = skill.retry
            if self.pins.side_effects is not None and skill.side_effects:
                self.pins.side_effects.append(reference)
        for model, price in said.models.items():
            self.pins.prices.models.setdefault(model, price)
        self.__dict__.pop("prices", None)  # made anew with these in it

    def from_trace(self, trace: TraceFold, parameters: Document, caller_key: str | None) -> PlannedStep:
        """The step behind a trace that was left open."""
        version, turn = trace.meta("skill_version"), trace.meta("turn")
        return self.planned(
            index=trace.step_index,
            step_id=trace.step_id,
            skill_id=str(trace.meta("skill_id")),
            version=version if isinstance(version, str) else None,
            parameters=parameters,
            turn=turn if isinstance(turn, int) else 0,
            caller_key=caller_key,
        )

    def assemble(self, requests: Iterable[ActionRequest]) -> tuple[Document, str]:
        """The calls in request order as a pinned plan that names what they were made with, and its hash."""
        steps = []
        skills, prices = self.pins.skills, self.pins.prices.skills
        for request in sorted(requests, key=step_index):
            meta = meta_of(request)
            row: Document = {
                "step_id": meta["step_id"],
                "skill_id": meta["skill_id"],
                "parameters": {COMMIT: request.proposal.args[COMMIT]},
                "on_error": "continue",
            }
            if meta["skill_version"] is not None:
                row["skill_version"] = meta["skill_version"]
            digest, reference = meta["definition_digest"], f"{row['skill_id']}@{row.get('skill_version')}"
            if isinstance(digest, str):  # of a skill that an earlier process added to the session, and nobody since
                skills.setdefault(reference, digest)
                prices.setdefault(reference, FREE)
            if meta.get("key") is not None:
                row["idempotency_key"] = {COMMIT: meta["key"]}
            steps.append(row)
        context = self.document["context"]
        assert isinstance(context, dict)
        pins = to_builtins(self.pins)
        if self.pins.side_effects is not None:
            pins["side_effects"] = sorted(self.pins.side_effects)
        document = {**self.document, "steps": steps, "context": {**context, "pins": pins}}
        return document, plan_hash(document)


def carried_exact(document: Document) -> int:
    """What a session that continues another had spent when it began; of those of earlier releases nobody knows."""
    own = document.get("session")
    continues = own.get("continues") if isinstance(own, dict) else None
    return int(str(continues.get("spent_exact", 0))) if isinstance(continues, dict) else 0


def meta_of(request: ActionRequest) -> Meta:
    assert not isinstance(request.meta, UnsetType)
    return request.meta


def step_index(request: ActionRequest) -> int:
    index = meta_of(request)["step_index"]
    assert isinstance(index, int)
    return index


build(Pinned)
