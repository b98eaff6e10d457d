"""What a recorded plan may do when it is run live again: within the host's policy, and from a folder only if trusted.

A folder comes from somebody. Looking at it is safe: a mock replay, a dry run and a mock fork call nothing and load
nothing that it names. Running it live is running a stranger's plan, so its reader is told first what it comes to.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from reenact.contracts.plan import Plan, Step, plan_from_document
from reenact.contracts.references import has_references, secret_names
from reenact.errors import UntrustedPlan
from reenact.policy.hosts import named_targets
from reenact.record.recording import Recording
from reenact.runtime.engine import Engine
from reenact.runtime.plans.pinning import refuse_looser_pins

FUNCTIONLESS = ("auto", "ask")


def admitted(
    engine: Engine, recording: Recording, document: dict[str, object], live: Collection[str], *, trusted: bool
) -> dict[str, object]:
    """The plan that is run with these steps live, narrowed to the policy; refused where nobody has trusted it."""
    if not live:
        return document
    plan = plan_from_document(document)[0]
    if recording.folder is not None and not trusted:
        would = what_it_does(plan, live)
        told = "; ".join(f"{kind} {', '.join(names)}" for kind, names in would.items())
        raise UntrustedPlan(
            f"{recording.folder}: a plan that came in a folder is not run live unsaid; it would use {told}. If you "
            "trust it, say --trust-plan (trust_plan=True); nothing was run",
            would,
        )
    policy, source = (
        replace(engine.policy, trusts_plans=engine.policy.trusts_plans or trusted),
        f"run {recording.run_id}",
    )
    refuse_looser_pins(plan, engine.registry, policy, engine.clock.now_ms(), source=source)
    return policy.admit(plan, document, engine.plan_secrets, source=source)[1]


def what_it_does(plan: Plan, live: Collection[str]) -> dict[str, list[str]]:
    """By kind, as far as the plan says it; what another step returns may name more, within the host's policy."""
    steps, context = [step for step in plan.steps if step.step_id in live], plan.context
    folders = [context.workspace, None if context.shell is None else context.shell.workspace]
    found = {
        "skills": [f"{step.skill_id}@{step.skill_version}" for step in steps],
        "hosts": [*(host for step in steps for host in hosts_of(step)), *context.allow_hosts],
        "secrets": [name for step in steps for name in secret_names(step.parameters)],
        "workspaces": [folder for folder in folders if folder],
        "supervisors": [context.supervisor] if context.supervisor not in FUNCTIONLESS else [],
    }
    if context.shell is not None and context.shell.allow:
        found["commands"] = context.shell.commands or ["any"]
    return {kind: list(dict.fromkeys(names)) for kind, names in found.items() if names}


def hosts_of(step: Step) -> list[str]:
    named = named_targets(step.parameters, step.parameters.get)
    return [
        str(target) if target is not None and not has_references(value) else "one that is computed"
        for _, value, target in named
    ]
