"""`reenact recover`: go on with every run that stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from reenact.cli.options import JsonOption, SkillsOption, StoreOption, UnrecordedReadsOption

if TYPE_CHECKING:
    from reenact.cli.advice import Advice
    from reenact.record.result import RunResult
    from reenact.replay.runtime import Runtime
    from reenact.store.base import RunRow


@dataclass(frozen=True)
class Recovered:
    """One run, and what became of it: a result, or why it was left as it is."""

    run_id: str
    status: str
    result: RunResult | None = None
    error: str | None = None
    exit_code: int = 0
    free_in_s: float | None = None


def recover(
    store: StoreOption = None,
    skills: SkillsOption = None,
    unrecorded_reads: UnrecordedReadsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with every run that has not ended and that nobody is working on, the oldest first.

    One that cannot go on does not keep the others from it.

    Exit codes: 0 nothing is left to do here, 1 a run failed or is damaged, 3 the store cannot be used, 4 a run waits
    for a person or is held, 130 interrupted.
    """
    from reenact.cli.advice import Advice
    from reenact.cli.exits import worst
    from reenact.cli.interrupting import conduct
    from reenact.cli.options import open_runtime
    from reenact.cli.screens.progress import choose_progress
    from reenact.contracts.records import UNFINISHED
    from reenact.store.open import missing

    advice = Advice(store, skills or ())
    recovered: list[Recovered] = []
    place = missing(store)
    if place is not None:
        typer.echo(f"there is no store at {place} yet", err=True)
    else:
        progress = choose_progress(as_json=as_json)
        runtime = open_runtime(store, skills, (progress,), unrecorded_reads=unrecorded_reads)
        rows = list(reversed(runtime.store.runs(status=UNFINISHED)))
        recovered = conduct(lambda: recover_all(runtime, rows), progress, advice)
    show(recovered, advice, as_json=as_json)
    raise typer.Exit(worst(item.exit_code for item in recovered))


def recover_all(runtime: Runtime, rows: list[RunRow]) -> list[Recovered]:
    """Each of them, and once more those of a process elsewhere whose lease ends while we wait: it does not live."""
    import asyncio

    from reenact.runtime.conduct import LAPSED_S

    recovered = [recover_one(runtime, row) for row in rows]
    waits = [item.free_in_s for item in recovered if item.free_in_s is not None]
    if not waits:
        return recovered
    typer.echo(f"{max(waits):.0f} s until it is known whether other hosts or containers still work", err=True)
    asyncio.run(runtime.door.sleep(max(waits) + LAPSED_S))
    return [
        item if item.free_in_s is None else recover_one(runtime, row) for row, item in zip(rows, recovered, strict=True)
    ]


def recover_one(runtime: Runtime, row: RunRow) -> Recovered:
    """Go on with one run; only trouble with the store itself ends the command."""
    from reenact.cli.exits import DONE, exit_code
    from reenact.errors import LockAcquireFailed, ReenactError, StoreError

    try:
        result = runtime.resume(row.run_id)
    except LockAcquireFailed as error:
        return Recovered(row.run_id, row.status, error=str(error), exit_code=DONE, free_in_s=error.free_in_s)
    except StoreError:
        raise
    except ReenactError as error:
        return Recovered(row.run_id, row.status, error=str(error), exit_code=error.exit_code)
    return Recovered(row.run_id, result.status, result, exit_code=exit_code(result.status))


def show(recovered: list[Recovered], advice: Advice, *, as_json: bool) -> None:
    from reenact.cli.screens.outcome_lines import result_document, result_lines
    from reenact.cli.screens.printing import Segment, one_line, print_json, print_lines

    if as_json:
        print_json(
            [
                {**(result_document(item.result) if item.result else {"run_id": item.run_id, "status": item.status}),
                 "error": item.error}
                for item in recovered
            ]
        )  # fmt: skip
        return
    lines: list[list[Segment]] = []
    for item in recovered:
        if item.result is not None:
            lines += result_lines(item.result, advice)
        else:
            lines.append([(f"run {item.run_id} left as it is: {one_line(item.error or '')}", "yellow")])
    print_lines(lines or [[("nothing to recover", "")]])
