"""`reenact fork`: the recording up to a step, then on with one thing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reenact.cli.commands.runs.replay import BreakersOption
from reenact.cli.commands.runs.shadow import ReportOption, write_report
from reenact.cli.options import (
    GraceOption,
    HostPolicyOption,
    JsonOption,
    SkillsOption,
    StoreOption,
    TargetArgument,
    TrustOption,
)

ChangeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="steps.STEP.parameters.url=…, context.budget_cents=5, outputs.STEP.price=7; may be given again.",
    ),
]


def fork(
    run: TargetArgument,
    at: Annotated[str, typer.Option("--at", metavar="STEP", help="The first step that is not taken from the record.")],
    change: ChangeOption = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="JSON with fields of a plan's context: budget, retry, …"),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Call skills from that step on, writes too.")] = False,
    *,
    allow_breakers: BreakersOption = False,
    trust_plan: TrustOption = False,
    host_policy: HostPolicyOption = None,
    report: ReportOption = None,
    store: StoreOption = None,
    skills: SkillsOption = None,
    grace: GraceOption = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Replay a run up to a step and go on from there with one thing changed, as a new run with its parent.

    Without --live the recorded effects are served on; where a call comes that was never made, the fork ends and says
    so.

    Exit codes: 0 it behaved the same; 1 it differed, or something stands in its way; 2 no such step or path; 3 the
    store cannot be used; 4 the recorded run has not ended, or the new one waits.
    """
    from reenact.cli.advice import Advice
    from reenact.cli.commands.runs.replay import show
    from reenact.cli.interrupting import conduct, drained, replay_exit_code
    from reenact.cli.options import existing_store, open_runtime, read_object
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.screens.progress import choose_progress
    from reenact.record.bundle import is_bundle
    from reenact.replay.api import load
    from reenact.replay.compare.counterfactual import of_fork
    from reenact.replay.modes.changes import apply_changes, parse_set

    if not is_bundle(run):
        existing_store(store).close()
    progress = choose_progress(as_json=as_json)
    runtime = open_runtime(store, skills, (progress,), policy=policy_of(host_policy, trust_plan=trust_plan))
    recording = load(runtime, run)
    fields = None if policy is None else read_object(policy, "a policy is a JSON object, fields of a plan's context")
    changes = apply_changes(recording, dict(parse_set(item) for item in change or ()), fields)
    result = conduct(
        lambda: runtime.fork(run, at, changes=changes, live=live, allow_breakers=allow_breakers, trust_plan=trust_plan),
        progress,
        Advice(store, skills or (), host_policy, trust_plan),
        stopping=drained(runtime, grace),
    )
    if report is not None:
        write_report(of_fork(recording, result, changes.document), report)
    show(result, as_json=as_json)
    raise typer.Exit(replay_exit_code(result, runtime))
