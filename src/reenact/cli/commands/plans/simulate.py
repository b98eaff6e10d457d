"""`reenact simulate`: what a plan would do, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import HostPolicyOption, JsonOption, SkillsOption, StoreOption, TrustOption

if TYPE_CHECKING:
    from reenact.contracts.plan import Plan
    from reenact.replay.forecast.simulation import Outside
    from reenact.runtime.effects.secrets import Secrets


def simulate(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a JSON file.")],
    skills: SkillsOption = None,
    store: StoreOption = None,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a plan would do: whether it can be run, what it may cost and take, what is missing, what is risky.

    Nothing is called. A plan that is not pinned is pinned for the look alone. Where there is a store, what earlier runs
    took and what was spent today are taken from it; it is only read.

    Exit codes: 0 feasible, 1 not feasible, 2 the plan or the skills cannot be used, 3 a file cannot be read.
    """
    import msgspec

    from reenact.cli.commands.plans.plan_file import read_plan
    from reenact.cli.exits import DONE, FAILED
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.options import load_registry
    from reenact.cli.screens.printing import print_json, print_lines
    from reenact.cli.screens.simulation_lines import simulation_lines
    from reenact.replay.forecast.simulation import simulate as simulate_plan
    from reenact.runtime.effects.secrets import Secrets
    from reenact.runtime.plans.pinning import pin_plan
    from reenact.runtime.plans.prepare import admitted
    from reenact.values.clock import SystemClock

    file, registry = read_plan(plan), load_registry(skills)
    policy, name = policy_of(host_policy, trust_plan=trust_plan), str(plan)
    within = file.located(lambda: admitted(policy, file.plan, file.document, registry, Secrets(), source=name))
    pinned = file.located(lambda: pin_plan(*within, registry, SystemClock(), source=name, policy=policy.digest))
    ceiling = policy.for_plans
    secrets = Secrets().within(ceiling.secrets, variables=ceiling.environment)
    answer = simulate_plan(pinned, registry, outside(store, pinned.plan, secrets))
    if as_json:
        print_json(msgspec.to_builtins(answer))
    else:
        print_lines(simulation_lines(answer))
    raise typer.Exit(DONE if answer.feasible else FAILED)


def outside(url: str | None, plan: Plan, secrets: Secrets) -> Outside:
    """What the environment and the store know; asking makes no store."""
    from reenact.cli.options import existing_store
    from reenact.replay.forecast.simulation import Outside
    from reenact.replay.forecast.usual_times import usual_times
    from reenact.store.open import missing
    from reenact.values.clock import SystemClock

    if missing(url) is not None:
        return Outside(has_secret=secrets.has, loads_supervisor=True)
    opened = existing_store(url)
    references = {f"{step.skill_id}@{step.skill_version}" for step in plan.steps}
    today = SystemClock().timestamp()[:10]
    return Outside(
        has_secret=secrets.has,
        loads_supervisor=True,
        usual_ms=usual_times(opened, references),
        day_spent=opened.spent(today, plan.agent_id),
    )
