"""`reenact run`: a plan from its first step to its seal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import (
    GraceOption,
    HostPolicyOption,
    JsonOption,
    ReplayLogOption,
    SkillsOption,
    StoreOption,
    ToolRegistryOption,
    TrustOption,
    UnrecordedReadsOption,
)

if TYPE_CHECKING:
    from reenact.replay.runtime import Runtime


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a JSON file.")],
    store: StoreOption = None,
    skills: SkillsOption = None,
    tool_registry: ToolRegistryOption = None,
    unrecorded_reads: UnrecordedReadsOption = False,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    *,
    issue_number: Annotated[
        int | None, typer.Option("--issue-number", metavar="N", help="What it is run for; for the replay log.")
    ] = None,
    policy_version: Annotated[
        str | None, typer.Option("--policy-version", metavar="TEXT", help="Of what decided it; for the replay log.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", metavar="0..1", help="How sure whoever planned it is.")
    ] = None,
    replay_log: ReplayLogOption = None,
    grace: GraceOption = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Run a plan, step by step, recorded as it goes.

    A run that is killed goes on with `reenact resume` or `reenact recover`; what is recorded is not done again.

    Exit codes: 0 completed, 1 a step failed, 2 the plan or the skills cannot be used, 3 the store cannot, 4 it waits
    for a person or is held, or a call had not ended when the grace was over, 130 interrupted. After SIGTERM a run that
    was given back between two steps is 0.
    """
    from reenact.cli.advice import Advice
    from reenact.cli.commands.plans.plan_file import read_plan
    from reenact.cli.interrupting import conduct, drained, exit_code_of
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.options import open_runtime
    from reenact.cli.screens.outcome_lines import print_result
    from reenact.cli.screens.progress import choose_progress
    from reenact.runtime.plans.prepare import prepare_plan

    file = read_plan(plan).saying(issue_number=issue_number, policy_version=policy_version, confidence=confidence)
    progress = choose_progress(as_json=as_json)
    runtime = open_runtime(
        store,
        skills,
        (progress,),
        unrecorded_reads=unrecorded_reads,
        tool_registries=tool_registry,
        policy=policy_of(host_policy, trust_plan=trust_plan),
        replay_log=replay_log,
    )
    refuse_log_of_another(runtime, replay_log)
    pinned = file.located(lambda: prepare_plan(runtime, file.plan, file.document, source=str(plan)))
    advice = Advice(store, skills or (), host_policy, trust_plan)
    stopping = drained(runtime, grace)
    result = file.located(lambda: conduct(lambda: runtime.run(pinned), progress, advice, stopping=stopping))
    print_result(result, advice, as_json=as_json)
    raise typer.Exit(exit_code_of(result, runtime))


def refuse_log_of_another(runtime: Runtime, replay_log: Path | None) -> None:
    """A new run is not begun where its log cannot be written."""
    from reenact.errors import UsageError

    logs = runtime.committer.logs
    if logs is not None and logs.is_taken:
        of = f"the replay log of run {logs.holds}" if logs.holds else "something else"
        raise UsageError(f"--replay-log {replay_log}: the file holds {of}; name a new file, or a folder")
