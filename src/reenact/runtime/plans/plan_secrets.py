"""No secret stands in a plan: it is stored as it is hashed, and read by many."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reenact.contracts.plan import Plan, Step
from reenact.contracts.references import secret_mistakes, secret_names
from reenact.errors import PlanError, SkillNotFound, UsageError
from reenact.policy.literals import literal_secrets
from reenact.policy.redaction import REDACTED, SecretRules
from reenact.runtime.effects.secrets import PREFIX, Secrets
from reenact.skills.registry import Registry
from reenact.values.canonical import canonicalize

MARK = REDACTED.encode()
PLAIN_KEY = re.compile(r"[A-Za-z_]\w*\Z")


def refuse_secrets(
    plan: Plan, document: dict[str, object], registry: Registry, secrets: Secrets, *, source: str
) -> None:
    """PlanError with the place of the first secret that stands literally in the plan, and what to write instead."""
    secrets.learn(secret_names([step.parameters for step in plan.steps]))
    each = RulesBySkill(secrets.known_values, tuple(plan.context.secret_fields), registry)
    for index, step in enumerate(plan.steps):
        rules, content = each.at(step), canonicalize(step.parameters)
        if content.find(b'"$secret"') >= 0:
            for mistake in secret_mistakes(step.parameters, f"$.steps[{index}].parameters"):
                raise PlanError(f"{source}: {mistake}")
        if looks_plain(step.parameters, content, rules):
            continue
        places = literal_secrets(step.parameters, rules)
        if places:
            where = f"$.steps[{index}].parameters{json_path(places[0])}"
            raise PlanError(
                f'{source}: {where} looks like a secret, and a plan is stored as it is: write {{"$secret": "NAME"}} '
                f"there and put the value into the environment as {PREFIX}NAME"
            )
    around, rules = around_parameters(plan, document), SecretRules(secrets.known_values)
    if looks_plain(around, canonicalize(around), rules):
        return
    for place in rules.find(around):
        raise PlanError(
            f"{source}: ${json_path(place)} looks like a secret, and a plan is stored as it is: take it out"
        )


def refuse_secrets_in_session(agent_id: str, context: Mapping[str, object], secrets: Secrets) -> None:
    """UsageError where what a session is opened with holds a secret; its goal may, and is kept without it."""
    for place in SecretRules(secrets.known_values).find({"agent_id": agent_id, "context": dict(context)}):
        raise UsageError(f"session: {json_path(place)[1:]} looks like a secret, and is stored as it is: take it out")


class RulesBySkill:
    """What is secret in the parameters of each skill, made once."""

    def __init__(self, known: frozenset[str], fields: tuple[str, ...], registry: Registry) -> None:
        self._known = known
        self._fields = fields
        self._registry = registry
        self._made: dict[tuple[str, str | None], SecretRules] = {}

    def at(self, step: Step) -> SecretRules:
        skill = (step.skill_id, step.skill_version)
        if skill not in self._made:
            self._made[skill] = SecretRules(self._known, (*self._fields, *self._hints(step)))
        return self._made[skill]

    def _hints(self, step: Step) -> tuple[str, ...]:
        try:
            return self._registry.resolve(step.skill_id, step.skill_version or "").metadata.redact
        except SkillNotFound:
            return ()


def looks_plain(value: object, content: bytes, rules: SecretRules) -> bool:
    """Nothing in the value can be a secret, the mark of one, or a reference to another step."""
    return rules.passes(value, content) and content.find(MARK) < 0 and content.find(b"{{") < 0


def around_parameters(plan: Plan, document: dict[str, object]) -> dict[str, object]:
    """Everything else that the plan says in its own words."""
    context = document.get("context")
    own = {key: value for key, value in context.items() if key != "pins"} if isinstance(context, dict) else {}
    steps = [
        {"step_id": step.step_id, "skill_id": step.skill_id, "idempotency_key": step.idempotency_key}
        for step in plan.steps
    ]
    return {"plan_id": plan.plan_id, "agent_id": plan.agent_id, "goal": plan.goal, "steps": steps, "context": own}


def json_path(pointer: str) -> str:
    """A JSON pointer as the path that other messages about plans show: `/headers/x` is `.headers.x`."""
    path = ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if name.isdigit():
            path += f"[{name}]"
        else:
            path += f".{name}" if PLAIN_KEY.match(name) else f"[{name!r}]"
    return path
