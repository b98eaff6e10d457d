"""Pinning: a plan gets everything that its behaviour depends on written into it, once."""

from __future__ import annotations

from reenact.contracts.plan import Plan, plan_from_document
from reenact.contracts.skill import SkillMetadata
from reenact.errors import PlanError, SkillNotFound, UnknownPrice, UsageError
from reenact.policy.cost import DEFAULT_PRICES, PriceTable, price_from_genai
from reenact.policy.retry import merge_retry, policy_to_dict
from reenact.policy.settle import tariff
from reenact.policy.taxonomy import TAXONOMY_VERSION
from reenact.skills.registry import Registry
from reenact.values.clock import Door


def pin(document: dict[str, object], registry: Registry, door: Door, *, source: str = "plan") -> dict[str, object]:
    """The plan's document with versions, policies, prices, taxonomy and salt. A pinned plan is returned as it is."""
    plan, _ = plan_from_document(document, source=source)
    if plan.context.pins is not None:
        return document
    steps = pinned_steps(document, plan, registry)
    used = sorted({(step["skill_id"], step.get("skill_version")) for step in steps if step.get("skill_version")})
    pins: dict[str, object] = {
        "taxonomy": TAXONOMY_VERSION,
        "prices": prices_for(plan, steps, registry, used),
        "retry": retry_for(registry, used),
        "skills": digests_for(registry, used),
        "salt": door.random_bytes(32).hex(),
    }
    if limits_external_calls(plan):
        pins["side_effects"] = with_side_effects(registry, used)
    context = document.get("context")
    return {
        **document,
        "steps": steps,
        "context": {**(context if isinstance(context, dict) else {}), "pins": pins},
    }


def pinned_steps(document: dict[str, object], plan: Plan, registry: Registry) -> list[dict[str, object]]:
    raw = document["steps"]
    assert isinstance(raw, list)
    pinned = []
    for step, given in zip(plan.steps, raw, strict=True):
        version = step.skill_version
        if version is None:
            try:
                version = registry.highest(step.skill_id).version
            except SkillNotFound:
                version = None  # the step will be refused as ERR_SKILL_NOT_FOUND; nothing is substituted
        pinned.append({**given, "skill_version": version} if version else dict(given))
    return pinned


def retry_for(registry: Registry, used: list[tuple[object, object]]) -> dict[str, object]:
    pinned: dict[str, object] = {"default": policy_to_dict(merge_retry())}
    for skill_id, version in used:
        reference = f"{skill_id}@{version}"
        if reference in registry:
            declared = registry.resolve(str(skill_id), str(version)).metadata.retry
            if declared is not None:
                pinned[reference] = policy_to_dict(merge_retry(declared))
    return pinned


def limits_external_calls(plan: Plan) -> bool:
    return plan.context.profile is not None and plan.context.profile.max_external_calls is not None


def with_side_effects(registry: Registry, used: list[tuple[object, object]]) -> list[str]:
    """Which calls count as external depends on it, also where the skills' code is not at hand."""
    known = [f"{skill_id}@{version}" for skill_id, version in used if f"{skill_id}@{version}" in registry]
    return [name for name in known if registry.resolve(*name.split("@", 1)).metadata.side_effects]


def digests_for(registry: Registry, used: list[tuple[object, object]]) -> dict[str, str]:
    references = [f"{skill_id}@{version}" for skill_id, version in used]
    known = registry.digests()
    return {reference: known[reference] for reference in references if reference in known}


def prices_for(
    plan: Plan, steps: list[dict[str, object]], registry: Registry, used: list[tuple[object, object]]
) -> dict[str, object]:
    """Token prices of the models that the steps ask, and the fixed price of each skill."""
    skills: dict[str, object] = {}
    for skill_id, version in used:
        reference = f"{skill_id}@{version}"
        if reference in registry:
            skills[reference] = price_row(registry.resolve(str(skill_id), str(version)).metadata)
    models = set()
    by_tokens = {(skill_id, version) for skill_id, version in used if asks_a_model(skills, skill_id, version)}
    for step, given in zip(plan.steps, steps, strict=True):
        if (step.skill_id, given.get("skill_version")) in by_tokens:
            model = tariff({"skills": skills}, f"{step.skill_id}@{given['skill_version']}", step.parameters).model
            models |= {model} if model is not None else set()
    try:
        table = DEFAULT_PRICES.extended(plan.context.prices)
    except UsageError as error:
        raise PlanError(f"$.context.prices: {error}") from None
    named = {model: price for model in sorted(models) if (price := price_of(model, table)) is not None}
    return {"models": named, "version": table.version, "skills": skills}


def asks_a_model(skills: dict[str, object], skill_id: object, version: object) -> bool:
    return tariff({"skills": skills}, f"{skill_id}@{version}", {}).by_tokens


def price_row(meta: SkillMetadata) -> dict[str, object]:
    """How a skill is priced; with the model that it asks where a call names none, so that replays need no code."""
    row: dict[str, object] = {"cost_estimate_cents": meta.cost_estimate_cents, "cost_model": meta.cost_model}
    default = meta.argument("model", {})
    return {**row, "model": default} if meta.cost_model == "tokens" and isinstance(default, str) else row


def price_of(model: str, table: PriceTable) -> dict[str, str] | None:
    """The plan's price, ours, or the maintained list's. None stays unknown: the step that needs it is refused."""
    if model in table.models:
        price = table.models[model]
        return {"input": str(price.input), "output": str(price.output)}
    try:
        return price_from_genai(model)
    except UnknownPrice:
        return None
