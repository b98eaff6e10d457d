"""Pinning: a plan gets everything that its behaviour depends on written into it, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import convert, to_builtins
from msgspec.structs import replace

from reenact.contracts.plan import PIN_AGAIN, Plan, Step, plan_from_document
from reenact.contracts.plan_rules import PinnedPrices, Pins, SkillPrice, TokenPrice
from reenact.contracts.skill import SkillMetadata
from reenact.errors import BeyondPolicy, CanonicalizationError, PlanError, SkillNotFound, UnknownPrice
from reenact.policy.ceiling import Beyond
from reenact.policy.cost import DEFAULT_PRICES, PriceTable, price_from_genai
from reenact.policy.retry import merge_retry, policy_to_dict
from reenact.policy.settle import tariff_of
from reenact.policy.taxonomy import TAXONOMY_VERSION
from reenact.skills.registry import Registry, digests_of
from reenact.values.canonical import as_recorded
from reenact.values.clock import Clock
from reenact.version import __version__

if TYPE_CHECKING:
    from reenact.runtime.host_policy import HostPolicy


class PinnedPlan(NamedTuple):
    """A plan that is parsed, checked and pinned, and the document that its hash covers."""

    plan: Plan
    document: dict[str, object]


def pin(document: dict[str, object], registry: Registry, clock: Clock, *, source: str = "plan") -> dict[str, object]:
    """The plan's document pinned: see `pin_plan`."""
    return pin_document(document, registry, clock, source=source).document


def pin_document(document: dict[str, object], registry: Registry, clock: Clock, *, source: str = "plan") -> PinnedPlan:
    return pin_plan(plan_from_document(document, source=source)[0], document, registry, clock, source=source)


def pin_plan(
    plan: Plan,
    document: dict[str, object],
    registry: Registry,
    clock: Clock,
    *,
    source: str = "plan",
    policy: str | None = None,
) -> PinnedPlan:
    """The plan with versions, policies, prices, taxonomy and salt. To a pinned plan nothing is added.

    `policy` is the digest of the host's, where it has set one.
    Parameters are what a record of the plan gives back.
    """
    plan, document = with_recorded_parameters(plan, document, source)
    if plan.context.pins is not None:
        check_pins(plan, plan.context.pins, registry, source)
        return PinnedPlan(plan, document)
    plan = replace(plan, steps=[with_version(step, registry) for step in plan.steps])
    used = sorted({(step.skill_id, step.skill_version) for step in plan.steps if step.skill_version})
    pins: dict[str, object] = {
        "taxonomy": TAXONOMY_VERSION,
        "prices": prices_for(plan, registry, used, clock.now_ms()),
        "retry": retry_for(registry, used),
        "skills": digests_of(registry, (f"{skill_id}@{version}" for skill_id, version in used)),
        "salt": clock.random_bytes(32).hex(),
    }
    if limits_external_calls(plan):
        pins["side_effects"] = with_side_effects(registry, used)
    if policy is not None:
        pins["policy"] = policy
    given, context = cast("list[dict[str, object]]", document["steps"]), document.get("context")
    steps = [
        {**raw, "skill_version": step.skill_version} if step.skill_version else dict(raw)
        for step, raw in zip(plan.steps, given, strict=True)
    ]
    plan = replace(plan, context=replace(plan.context, pins=convert(pins, Pins)))
    return PinnedPlan(
        plan,
        {**document, "steps": steps, "context": {**(context if isinstance(context, dict) else {}), "pins": pins}},
    )


def with_version(step: Step, registry: Registry) -> Step:
    """A step that names no version gets the highest that is registered."""
    if step.skill_version is not None:
        return step
    try:
        return replace(step, skill_version=registry.highest(step.skill_id).version)
    except SkillNotFound:
        return step  # it will be refused as ERR_SKILL_NOT_FOUND; nothing is substituted


def with_recorded_parameters(plan: Plan, document: dict[str, object], source: str) -> PinnedPlan:
    """A skill gets the same values from a plan in memory as from the plan's record, after a crash or in a replay."""
    parameters = [parameters_as_recorded(step, index, source) for index, step in enumerate(plan.steps)]
    if all(new is step.parameters for new, step in zip(parameters, plan.steps, strict=True)):
        return PinnedPlan(plan, document)
    given = cast("list[dict[str, object]]", document["steps"])
    changed = [{**raw, "parameters": new} for raw, new in zip(given, parameters, strict=True)]
    steps = [replace(step, parameters=new) for step, new in zip(plan.steps, parameters, strict=True)]
    return PinnedPlan(replace(plan, steps=steps), {**document, "steps": changed})


def parameters_as_recorded(step: Step, index: int, source: str) -> dict[str, object]:
    try:
        return cast("dict[str, object]", as_recorded(step.parameters))
    except CanonicalizationError as error:
        raise PlanError(f"{source}: $.steps[{index}].parameters: {error}") from None


def check_pins(plan: Plan, pins: Pins, registry: Registry, source: str) -> None:
    """PlanError where pins promise what this build cannot keep, or leave open what they are there to settle."""
    if pins.taxonomy != TAXONOMY_VERSION:
        raise PlanError(
            f"{source}: $.context.pins.taxonomy: the plan is pinned to version {pins.taxonomy!r} of the error "
            f"taxonomy, and reenact {__version__} has version {TAXONOMY_VERSION}; {PIN_AGAIN}"
        )
    for skill_id, version in dict.fromkeys((step.skill_id, step.skill_version) for step in plan.steps):
        if version is None and registry.versions(skill_id):
            open_ones = ((step.skill_id, step.skill_version) == (skill_id, None) for step in plan.steps)
            index, known = list(open_ones).index(True), ", ".join(registry.versions(skill_id))
            raise PlanError(
                f"{source}: $.steps[{index}]: the plan is pinned, and this step names no skill_version of {skill_id} "
                f"(there is {known}); {PIN_AGAIN}"
            )
        if f"{skill_id}@{version}" in registry and f"{skill_id}@{version}" not in pins.skills:
            raise PlanError(
                f"{source}: $.context.pins.skills: nothing is pinned for {skill_id}@{version}, which is registered "
                f"here; {PIN_AGAIN}"
            )


def retry_for(registry: Registry, used: list[tuple[str, str]]) -> dict[str, object]:
    pinned: dict[str, object] = {"default": policy_to_dict(merge_retry())}
    for skill_id, version in used:
        reference = f"{skill_id}@{version}"
        if reference in registry:
            declared = registry.resolve(skill_id, version).metadata.retry
            if declared is not None:
                pinned[reference] = policy_to_dict(merge_retry(declared))
    return pinned


def limits_external_calls(plan: Plan) -> bool:
    return plan.context.profile is not None and plan.context.profile.max_external_calls is not None


def with_side_effects(registry: Registry, used: list[tuple[str, str]]) -> list[str]:
    """Which calls count as external depends on it, also where the skills' code is not at hand."""
    known = [f"{skill_id}@{version}" for skill_id, version in used if f"{skill_id}@{version}" in registry]
    return [name for name in known if registry.resolve(*name.split("@", 1)).metadata.side_effects]


def prices_for(plan: Plan, registry: Registry, used: list[tuple[str, str]], at_ms: int) -> dict[str, object]:
    """Token prices of the models that the steps ask, as of `at_ms`, and the fixed price of each skill."""
    skills: dict[str, SkillPrice] = {}
    for skill_id, version in used:
        reference = f"{skill_id}@{version}"
        if reference in registry:
            skills[reference] = price_row(registry.resolve(skill_id, version).metadata)
    models = set()
    by_tokens = {reference: row for reference, row in skills.items() if row.cost_model == "tokens"}
    for step in plan.steps if by_tokens else ():
        row = by_tokens.get(f"{step.skill_id}@{step.skill_version}")
        model = None if row is None else tariff_of(row, step.parameters).model
        models |= {model} if model is not None else set()
    table = DEFAULT_PRICES.extended(plan.context.prices)
    named = {model: price for model in sorted(models) if (price := price_of(model, table, at_ms)) is not None}
    pinned: dict[str, object] = to_builtins(PinnedPrices(models=named, version=table.version, skills=skills))
    return pinned


def price_row(meta: SkillMetadata) -> SkillPrice:
    """How a skill is priced; with the model that it asks where a call names none, so that replays need no code."""
    by_tokens, default = meta.cost_model == "tokens", meta.argument("model", {})
    return SkillPrice(
        cost_estimate_cents=meta.cost_estimate_cents,
        cost_model="tokens" if by_tokens else None,
        model=default if by_tokens and isinstance(default, str) else None,
    )


def price_of(model: str, table: PriceTable, at_ms: int) -> TokenPrice | None:
    """The plan's price, ours, or the maintained list's. None stays unknown: the step that needs it is refused."""
    if model in table.models:
        price = table.models[model]
        return TokenPrice(input=str(price.input), output=str(price.output))
    try:
        return TokenPrice(**price_from_genai(model, at_ms=at_ms))
    except UnknownPrice:
        return None


def refuse_looser_pins(plan: Plan, registry: Registry, policy: HostPolicy, at_ms: int, *, source: str) -> None:
    """A plan that came pinned counts and prices its calls as the host would, where the host limits either."""
    refuse_uncounted(plan, registry, policy, source=source)
    refuse_cheaper(plan, registry, policy, at_ms, source=source)


def refuse_uncounted(plan: Plan, registry: Registry, policy: HostPolicy, *, source: str) -> None:
    pins = plan.context.pins
    if policy.for_plans.max_external_calls is None or pins is None or pins.side_effects is None:
        return
    used = [(skill_id, version) for skill_id, _, version in (name.partition("@") for name in pins.skills)]
    for reference in with_side_effects(registry, used):
        if reference not in pins.side_effects:
            why = f"{reference} declares side effects here and is not among them, so its calls would not be counted"
            raise policy.refusal(Beyond("$.context.pins.side_effects", "max_external_calls", why), source)


def refuse_cheaper(plan: Plan, registry: Registry, policy: HostPolicy, at_ms: int, *, source: str) -> None:
    """Where the host limits money, a plan that is priced below what the host knows would not be limited by it."""
    ceiling, pins = policy.for_plans, plan.context.pins
    if not ceiling.limits_money or pins is None:
        return
    table = DEFAULT_PRICES.extended(ceiling.prices)
    for model, price in pins.prices.models.items():
        refuse_cheaper_model(model, price, price_of(model, table, at_ms), policy, source=source)
    refuse_cheaper_skills(pins, registry, policy, source=source)


def refuse_cheaper_model(
    model: str, price: TokenPrice, known: TokenPrice | None, policy: HostPolicy, *, source: str
) -> None:
    if known is None or int(price.input) < int(known.input) or int(price.output) < int(known.output):
        told = "has no price for it" if known is None else "knows a higher one"
        why = f"the plan brings its own price of {model}, and this host {told}"
        raise policy.refusal(Beyond("$.context.prices", "prices", why), source)


def refuse_cheaper_skills(pins: Pins, registry: Registry, policy: HostPolicy, *, source: str) -> None:
    for reference, row in pins.prices.skills.items():
        if reference not in registry:
            continue
        own = price_row(registry.resolve(*reference.split("@", 1)).metadata)
        named, meant = (row.cost_model, row.model), (own.cost_model, own.model)
        if row.cost_estimate_cents < own.cost_estimate_cents or named != meant:
            place = f"$.context.pins.prices.skills[{reference!r}]"
            raise policy.refusal(Beyond(place, "prices", "it is priced below what the skill declares here"), source)


def loosened(plan: Plan, registry: Registry, policy: HostPolicy) -> str | None:
    """Why a run that was begun goes no further: by its pins, a limit that holds today would count too little.

    What a model costs stays as it was pinned, but where the policy itself says a price: lists change by themselves.
    """
    pins, ceiling = plan.context.pins, policy.for_plans
    source = "it was begun with more than the host's policy allows today"
    if pins is None:
        return None
    try:
        refuse_uncounted(plan, registry, policy, source=source)
        if ceiling.limits_money:
            refuse_cheaper_skills(pins, registry, policy, source=source)
            said = PriceTable("policy", {}).extended(ceiling.prices)
            for model in pins.prices.models.keys() & said.models.keys():
                refuse_cheaper_model(model, pins.prices.models[model], price_of(model, said, 0), policy, source=source)
    except BeyondPolicy as beyond:
        return str(beyond)
    return None
