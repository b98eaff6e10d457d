"""`reenact eval`: n samples × models × conditions through the journal, and a report that can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.exits import DONE, FAILED, INTERRUPTED
from reenact.cli.options import GraceOption, HostPolicyOption, JsonOption, SkillsOption, StoreOption
from reenact.cli.screens.printing import one_line, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from reenact.cli.screens.counted_bar import CountedBar
    from reenact.evals.publishing import Published

AGAIN = "start the same command again: it goes on where it was"


def eval(  # noqa: A001  # as users say it
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="What to evaluate, a JSON file.")],
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="The report. Default: as the spec says, else beside it."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="NAME", help="Evaluate once more what was evaluated before.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, max=64, help="Calls at once.")] = 1,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the bundle of an earlier run beside the report.")
    ] = False,
    root: Annotated[Path | None, typer.Option(help="Root of the repository. Default: found above the report.")] = None,
    host_policy: HostPolicyOption = None,
    grace: GraceOption = 20.0,
    store: StoreOption = None,
    skills: SkillsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate models under conditions, sample by sample, and publish a report with its replay block and bundle.

    Killed and started again it goes on: what is recorded is not asked for again. One that has ended is published again.

    Exit codes: 0 published; 1 published, and calls failed or the budget was used up before the last one; 2 the spec or
    the report's place cannot be used; 3 the store cannot; 4 it waits for a person; 130 interrupted.
    """
    from reenact.cli.interrupting import drained
    from reenact.cli.main import asked
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.options import open_runtime
    from reenact.cli.screens.counted_bar import CountedBar
    from reenact.cli.stdout import skill_output_to_stderr
    from reenact.errors import Draining
    from reenact.evals.publishing import evaluate

    runtime = open_runtime(store, skills, policy=policy_of(host_policy))
    try:
        with skill_output_to_stderr(), CountedBar("evaluating") as bar, drained(runtime, grace):
            published = evaluate(
                runtime,
                spec,
                report=report,
                label=label,
                jobs=jobs,
                replace=replace,
                root=root,
                argv=["reenact", *asked],
                progress=told(bar, quiet=as_json),
            )
    except KeyboardInterrupt:
        say(f"interrupted; {AGAIN}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Draining:
        say(f"stopped by SIGTERM; {AGAIN}", err=True)
        raise typer.Exit(DONE) from None
    show(published, as_json=as_json)
    raise typer.Exit(DONE if published.results.is_whole else FAILED)


def told(bar: CountedBar, *, quiet: bool) -> Callable[[int, int, str], None] | None:
    """A bar on a terminal, a line for each call elsewhere, nothing for whoever reads JSON."""
    from reenact.cli.screens.progress import can_animate

    if quiet:
        return None
    if can_animate():
        return lambda done, total, _: bar.update(done, total)
    return lambda done, total, line: say(f"{done}/{total} {one_line(line)}", err=True)


def show(published: Published, *, as_json: bool) -> None:
    import msgspec

    from reenact.cli.screens.printing import print_json
    from reenact.policy.cost import dollars

    results = published.results
    if as_json:
        print_json(
            {
                "run_id": results.result.run_id,
                "status": results.result.status,
                "report": str(published.report),
                "sidecar": str(published.sidecar),
                "results": str(published.results_file),
                "bundle": str(published.bundle),
                "cells": results.total,
                "made": len(results.answers),
                "failed": results.failed,
                "out_of_budget": results.out_of_money,
                "cost_exact": str(results.cost_exact),
                "rows": msgspec.to_builtins(results.rows),
            }
        )
        return
    for row in results.rows:
        error = "" if row.error is None else f" ± {row.error:.3f}"
        score = "no score" if row.mean is None else f"{row.mean:.3f}{error}"
        failed = f", {row.failed} failed" if row.failed else ""
        who = one_line(f"{row.model}, {row.condition}")
        say(f"{who}: {score} over {row.scored}{failed}, {dollars(int(row.cost_exact))}")
    if results.out_of_money:
        say(f"the budget was used up after {len(results.answers)} of {results.total} calls", err=True)
    say(f"run {results.result.run_id} {results.result.status}")
    say(f"{published.report}, with {published.sidecar.name}, {published.results_file.name} and {published.bundle.name}")
