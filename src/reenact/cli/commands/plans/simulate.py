"""`reenact simulate`: what a plan would do, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, SkillsOption, StoreOption

if TYPE_CHECKING:
    from reenact.contracts.plan import Plan
    from reenact.replay.forecast.simulation import Outside


def simulate(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a JSON file.")],
    skills: SkillsOption = None,
    store: StoreOption = None,
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
    from reenact.cli.options import load_registry
    from reenact.cli.screens.printing import print_json, print_lines
    from reenact.cli.screens.simulation_lines import simulation_lines
    from reenact.replay.forecast.simulation import simulate as simulate_plan
    from reenact.runtime.plans.pinning import pin_document
    from reenact.values.clock import SystemClock

    file, registry = read_plan(plan), load_registry(skills)
    pinned = file.located(lambda: pin_document(file.document, registry, SystemClock(), source=str(plan)))
    answer = simulate_plan(pinned, registry, outside(store, pinned.plan))
    if as_json:
        print_json(msgspec.to_builtins(answer))
    else:
        print_lines(simulation_lines(answer))
    raise typer.Exit(DONE if answer.feasible else FAILED)


def outside(url: str | None, plan: Plan) -> Outside:
    """What the environment and the store know; asking makes no store."""
    from reenact.cli.options import existing_store
    from reenact.replay.forecast.simulation import Outside
    from reenact.replay.forecast.usual_times import usual_times
    from reenact.runtime.effects.secrets import Secrets
    from reenact.store.open import missing
    from reenact.values.clock import SystemClock

    secrets = Secrets()
    if missing(url) is not None:
        return Outside(has_secret=secrets.has)
    opened = existing_store(url)
    references = {f"{step.skill_id}@{step.skill_version}" for step in plan.steps}
    today = SystemClock().timestamp()[:10]
    return Outside(
        has_secret=secrets.has,
        usual_ms=usual_times(opened, references),
        day_spent=opened.spent(today, plan.agent_id),
    )
