"""`reenact recover`: go on with every run that stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import (
    GraceOption,
    HostPolicyOption,
    JsonOption,
    ReplayLogOption,
    SkillsOption,
    StoreOption,
    TrustOption,
    UnrecordedReadsOption,
)
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.cli.advice import Advice
    from reenact.record.result import RunResult
    from reenact.replay.runtime import Runtime


def recover(
    store: StoreOption = None,
    skills: SkillsOption = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="So many runs at once.")] = 8,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="A run that has not ended by then gives its place to the next."),
    ] = 60.0,
    unrecorded_reads: UnrecordedReadsOption = False,
    replay_log: ReplayLogOption = None,
    host_policy: HostPolicyOption = None,
    trust_plan: TrustOption = False,
    grace: GraceOption = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Go on with every run that has not ended and that nobody is working on, the oldest first.

    One that cannot go on, takes its time or raises does not keep the others from it; one whose process died in it the
    last time comes last. Traces that another runtime writes are named and left.

    Exit codes: 0 every run has ended, 1 a run failed or is damaged, 3 the store cannot be used, 4 a run waits for a
    person, is held or is in other hands, or a call had not ended when the grace was over, 130 interrupted.
    """
    from reenact.cli.advice import Advice
    from reenact.cli.exits import DONE, worst
    from reenact.cli.interrupting import conduct, drained
    from reenact.cli.options import host_policy as policy_of
    from reenact.cli.options import open_runtime
    from reenact.cli.screens.progress import choose_progress
    from reenact.store.open import missing

    policy = policy_of(host_policy, trust_plan=trust_plan)
    advice = Advice(store, skills or (), host_policy, trust_plan)
    recovered: list[RunResult] = []
    code = DONE
    place = missing(store)
    if place is not None:
        say(f"there is no store at {place} yet", err=True)
    else:
        progress = choose_progress(as_json=as_json)
        runtime = open_runtime(
            store, skills, (progress,), unrecorded_reads=unrecorded_reads, policy=policy, replay_log=replay_log
        )
        recovered = conduct(
            lambda: runtime.recover(jobs=jobs, timeout_s=timeout, on_wait=say_how_long),
            progress,
            advice,
            stopping=drained(runtime, grace),
        )
        recovered = [as_far_as_read(result) for result in recovered]
        code = worst(result_code(result, runtime) for result in recovered)
    show(recovered, advice, as_json=as_json)
    raise typer.Exit(code)


def say_how_long(seconds: float) -> None:
    say(f"{seconds:.0f} s until it is known whether other hosts or containers still work", err=True)


def as_far_as_read(result: RunResult) -> RunResult:
    """Its own error where it cannot be read: a run that nobody could go on with was not read from its beginning."""
    from reenact.errors import ReenactError
    from reenact.record.result import RunResult

    try:
        for _ in result:
            pass
    except ReenactError as error:
        return RunResult(result.run_id, result.status, result.store, reason=str(error), error=error)
    return result


def result_code(result: RunResult, runtime: Runtime) -> int:
    """A run in other hands has not ended, like one that waits; a trace of another runtime is none of ours."""
    from reenact.cli.exits import DONE, OPEN
    from reenact.cli.interrupting import exit_code_of
    from reenact.errors import LockAcquireFailed

    if result.error is None:
        is_ours = result.store.find_run(result.run_id).kind != "trace"
        return exit_code_of(result, runtime) if is_ours else DONE
    return OPEN if isinstance(result.error, LockAcquireFailed) else result.error.exit_code


def show(recovered: list[RunResult], advice: Advice, *, as_json: bool) -> None:
    from reenact.cli.screens.outcome_lines import result_lines
    from reenact.cli.screens.printing import Segment, one_line, print_json, print_lines

    if as_json:
        print_json([as_document(result) for result in recovered])
        return
    lines: list[list[Segment]] = []
    for result in recovered:
        if result.error is None:
            lines += result_lines(result, advice)
        else:
            lines.append(
                [(f"run {result.run_id} left as it is: {one_line(str(result.error))} [{result.error.code}]", "yellow")]
            )
    print_lines(lines or [[("nothing to recover", "")]])


def as_document(result: RunResult) -> dict[str, object]:
    from reenact.record.result import result_document

    if result.error is None:
        return {**result_document(result), "error": None, "error_code": None}
    told = {"error": str(result.error), "error_code": result.error.code}
    return {"run_id": result.run_id, "status": result.status, **told}
