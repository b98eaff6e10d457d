"""`reenact ls`: which runs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, StoreOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.cli.screens.printing import Segment
    from reenact.contracts.records import RunStatus
    from reenact.store.base import RunRow

INTERRUPTED = "interrupted"
"""As a status it is shown alone: the record says that the run is running."""
PAGE, JSON_PAGE = 50, 1000
"""So many are listed where no limit is given: for people, and for programs."""


def ls(
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that a person must look at.")] = False,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help="Only runs of this status; repeatable."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, max=1_000_000_000, help="At most so many; else 50, and 1000 with --json."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="RUN", help="Only runs that began before this one.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first. One that counts as running and that nobody works on is shown as interrupted.

    Without a limit the newest 50 (1000 with --json); where there are more, it is said how the next ones are listed.

    Exit codes: 0 listed, also when there is none; 2 no such status; 3 the store cannot be used.
    """
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import print_json, print_lines
    from reenact.store.open import missing

    wanted = statuses(status or [], waiting=waiting)
    place = missing(store)
    if place is not None:
        say(f"there is no store at {place} yet; `reenact run` makes one", err=True)
    rows: list[RunRow] = []
    interrupted: frozenset[str] = frozenset()
    if place is None:
        recorded = existing_store(store)
        interrupted = recorded.unattended()
        left_alone = INTERRUPTED in (status or []) and "running" not in (status or [])
        first = None if before is None else recorded.find_run(before).run_id
        most = limit or (JSON_PAGE if as_json else PAGE)
        rows = recorded.runs(status=wanted or None, limit=None if left_alone else most + 1, before=first)
        if left_alone:
            rows = [row for row in rows if row.status != "running" or row.run_id in interrupted]
        if limit is None and len(rows) > most:
            more = f"`reenact ls --before {rows[most - 1].run_id}` lists those before, `--limit` more at once"
            say(f"these are the newest {most:,}; {more}", err=True)
        rows = rows[:most]
    if as_json:
        print_json([as_document(row, interrupted) for row in rows])
    else:
        print_lines(table(rows, interrupted))


def statuses(given: list[str], *, waiting: bool) -> tuple[RunStatus, ...]:
    from typing import cast, get_args

    from reenact.contracts.records import RunStatus
    from reenact.errors import UsageError

    known = (*get_args(RunStatus), INTERRUPTED)
    for name in given:
        if name not in known:
            raise UsageError(f"--status: there is no status {name!r}; one of {', '.join(known)}")
    wanted = ["running" if name == INTERRUPTED else name for name in given]
    wanted += ["waiting", "held"] if waiting else []
    return cast("tuple[RunStatus, ...]", tuple(dict.fromkeys(wanted)))


def as_document(row: RunRow, interrupted: frozenset[str]) -> dict[str, object]:
    return {
        "run_id": row.run_id,
        "status": row.status if row.damage is None else "damaged",
        "interrupted": row.run_id in interrupted,
        "kind": row.kind,
        "mode": row.mode,
        "plan_id": row.plan_id,
        "session": row.session,
        "agent_id": row.agent_id,
        "parent_run": row.parent_run,
        "commits": row.commits,
        "started_at": row.started_at,
    }


def table(rows: list[RunRow], interrupted: frozenset[str]) -> list[list[Segment]]:
    from reenact.cli.screens.outcome_lines import STATUS_STYLE
    from reenact.cli.screens.printing import one_line

    if not rows:
        return [[("no runs", "")]]
    continued = {row.parent_run: row.run_id for row in rows if row.kind == "session" and row.mode == "live"}
    lines: list[list[Segment]] = [[(f"{'RUN':<36}  {'STATUS':<11}  {'STARTED':<24}  PLAN", "bold")]]
    for row in rows:
        if row.damage is not None:
            lines.append(
                [(f"{one_line(row.run_id):<36}  ", ""), ("damaged", "red"), (f"      {one_line(row.damage)}", "")]
            )
            continue
        status = INTERRUPTED if row.run_id in interrupted else row.status
        of = "" if row.parent_run is None else f" of {row.parent_run}"
        mode = "" if row.mode == "live" else f" ({row.mode}{of})"
        if row.mode == "live" and row.parent_run is not None:
            mode = f", continues {row.parent_run}"
        if row.run_id in continued:
            mode += f", continued by {continued[row.run_id]}"
        name = row.plan_id if row.kind == "plan" else f"session {row.session or ''}".rstrip() + f" of {row.agent_id}"
        name = "a trace of another runtime" if row.kind == "trace" else name
        lines.append(
            [
                (f"{one_line(row.run_id):<36}  ", ""),
                (f"{one_line(status):<11}", STATUS_STYLE.get(status, "yellow")),
                (f"  {one_line(row.started_at):<24}  {one_line(name)}{mode}", ""),
            ]
        )
    return lines
