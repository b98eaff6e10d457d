"""`reenact plan`: from a goal to a pinned plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reenact.cli.options import JsonOption, SkillsOption


def plan(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What shall be done.")],
    *,
    planner: Annotated[
        str, typer.Option("--planner", metavar="KIND:NAME", help="static:FILE, rules:FILE or model:NAME.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it. Default: stdout.")
    ] = None,
    skills: SkillsOption = None,
    context: Annotated[
        Path | None, typer.Option("--context", metavar="FILE", help="The plan's context, a JSON file.")
    ] = None,
    budget: Annotated[int | None, typer.Option("--budget", metavar="CENTS", help="What a run may cost.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="For whom the plan is made.")] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="NAME[=SKILL]", help="A secret that a model may name; may be given again."),
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Where the model answers.")] = None,
    api_key_from: Annotated[
        str | None, typer.Option("--api-key-from", metavar="VARIABLE", help="The variable that holds the model's key.")
    ] = None,
    adapter: Annotated[str | None, typer.Option("--adapter", metavar="NAME", help="How to speak to the model.")] = None,
    repairs: Annotated[int, typer.Option("--repairs", min=0, max=10, help="Rounds to put a plan right in.")] = 2,
    planning_budget: Annotated[
        int | None, typer.Option("--planning-budget", metavar="CENTS", help="What asking the model may cost.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a plan for a goal, with every version, policy and price pinned. Nothing is run.

    A model names skills, earlier results and the secrets that --secret offers; budget, hosts, permissions and
    supervisor are those of --context, whatever it says. Look at the plan with `reenact simulate` before you run it.

    Exit codes: 0 written, 1 no plan came of it, 2 usage, 3 a file cannot be read or written.
    """
    from reenact.cli.commands.plans.plan_output import pinned_plan, print_plan, refuse, warn_of_unpriced
    from reenact.cli.options import load_registry, read_object
    from reenact.planners.choosing import planner_for
    from reenact.planners.manifest import Manifest
    from reenact.planners.planner import PlannerError

    settings = {} if context is None else read_object(context, "a context is a JSON object")
    if budget is not None:
        settings["budget_cents"] = budget
    if agent is not None:
        settings["agent_id"] = agent
    registry = load_registry(skills)
    chosen = planner_for(
        planner, adapter=adapter, base_url=base_url, api_key=api_key(api_key_from), repairs=repairs,
        max_cents=planning_budget, secrets=offered(secret), prices=settings.get("prices"),
    )  # fmt: skip
    made = chosen.plan(goal, settings, Manifest.of(registry, settings))
    if isinstance(made, PlannerError):
        refuse(made, as_json=as_json)
    document = pinned_plan(made, registry, chosen.planner_id)
    print_plan(document, output, as_json=as_json, planner=chosen)
    if not as_json:
        warn_of_unpriced(document)


def offered(secrets: list[str] | None) -> dict[str, list[str] | None]:
    """`NAME` for any skill, `NAME=SKILL` for one; the same name may be given for several."""
    found: dict[str, list[str] | None] = {}
    for text in secrets or ():
        name, equals, skill_id = text.partition("=")
        users = found.get(name, [])
        found[name] = None if not equals or users is None else [*users, skill_id]
    return found


def api_key(variable: str | None) -> str | None:
    """A key never stands on a command line, where everybody on the machine can read it."""
    from reenact.runtime.effects.secrets import Secrets

    return None if variable is None else Secrets().within(None, variables=True).get(variable)
