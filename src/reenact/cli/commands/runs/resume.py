"""`reenact resume`: go on with one run that stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from reenact.cli.options import (
    GraceOption,
    HostPolicyOption,
    JsonOption,
    ReplayLogOption,
    RunArgument,
    SkillsOption,
    StoreOption,
    TrustOption,
    UnrecordedReadsOption,
)


def resume(
    run: RunArgument,
    store: StoreOption = None,
    skills: SkillsOption = None,
    accept_changed: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-changed",
            metavar="SKILL",
            help="Go on although the declaration of this skill changed, which is recorded; may be given again.",
        ),
    ] = None,
    unrecorded_reads: UnrecordedReadsOption = False,
    replay_log: ReplayLogOption = None,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    grace: GraceOption = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run that was killed, interrupted, held or waiting. A run that has ended is shown as it ended.

    Exit codes: as of `reenact run`.
    """
    from reenact.cli.advice import Advice
    from reenact.cli.interrupting import conduct, drained, exit_code_of
    from reenact.cli.options import existing_store, open_runtime
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.screens.outcome_lines import print_result
    from reenact.cli.screens.progress import choose_progress

    existing = existing_store(store)
    row = existing.find_run(run)
    existing.close()
    progress = choose_progress(as_json=as_json)
    policy = policy_of(host_policy, trust_plan=trust_plan)
    runtime = open_runtime(
        store, skills, (progress,), unrecorded_reads=unrecorded_reads, policy=policy, replay_log=replay_log
    )
    advice = Advice(store, skills or (), host_policy, trust_plan)
    accepted = accept_changed or ()
    result = conduct(
        lambda: runtime.resume(row.run_id, accept_changed=accepted),
        progress,
        advice,
        known_run=row.run_id,
        stopping=drained(runtime, grace),
    )
    print_result(result, advice, as_json=as_json)
    raise typer.Exit(exit_code_of(result, runtime))
