"""`reenact archive`: the values of old runs moved to verified bundles, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.exits import FAILED
from reenact.cli.options import JsonOption, StoreOption, WhoOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.record.archive.moving import Candidate
    from reenact.store.base import Store


def archive(
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Runs sealed longer ago: 90d, 12h, 4w, 30m.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Where bundles go. Default, beside a file: STORE.archive."),
    ] = None,
    restore: Annotated[
        str | None, typer.Option("--restore", metavar="BUNDLE|RUN", help="Bring archived values back.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this it is only said what would be done.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.")] = "",
    who: WhoOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move the values of sealed runs to bundles, one for each run, or bring them back.

    Without --yes nothing is done. A bundle is written, verified and synced before anything is taken out of the store;
    commits, seals and keys stay. Stopped at any point, say it again: it goes on. A run whose values are archived is
    verified as before; to replay it, restore it.

    Exit codes: 0 done, or nothing to do, 1 a run could not be moved, or a bundle is not what it must be, 2 usage, 3 the
    store or a folder cannot be used.
    """
    from reenact.cli.options import existing_store
    from reenact.errors import UsageError

    if (older_than is None) == (restore is None):
        raise UsageError("say either --older-than AGE or --restore BUNDLE|RUN")
    opened = existing_store(store, to_write=True)
    if restore is not None:
        bring_back(opened, restore, yes=yes, as_json=as_json)
        return
    assert older_than is not None
    folder = to or default_folder(store)
    found = old_runs(opened, older_than)
    wanted = found if yes else []
    moved, failed = move_all(opened, wanted, folder, who, reason or f"older than {older_than}")
    show(found, moved, failed, folder, done=yes, as_json=as_json)
    if failed:
        raise typer.Exit(FAILED)


def default_folder(store: str | None) -> Path:
    from reenact.errors import UsageError
    from reenact.store.location import postgres_url, sqlite_path

    if postgres_url(store) is not None:
        raise UsageError("nothing lies beside a store in a database: say with --to where the bundles go")
    return Path(f"{sqlite_path(store)}.archive")


def old_runs(store: Store, older_than: str) -> list[Candidate]:
    from reenact.record.archive.moving import age_ms, candidates
    from reenact.values.clock import SystemClock

    return list(candidates(store, before_ms=SystemClock().now_ms() - age_ms(older_than)))


def move_all(
    store: Store, found: list[Candidate], folder: Path, who: str | None, reason: str
) -> tuple[list[dict[str, object]], dict[str, str]]:
    """(what was moved, why not by run)."""
    from reenact.cli.screens.counted_bar import counted
    from reenact.errors import EvidenceError, StoreBusy
    from reenact.record.archive.moving import move
    from reenact.runtime.people.votes import whoami

    moved: list[dict[str, object]] = []
    failed: dict[str, str] = {}
    name = whoami(who)
    wanted = [each for each in found if each.kept is None]
    if not wanted:
        return moved, failed
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in counted(wanted, "archiving"):
        try:
            done = move(store, each.run_id, folder, who=name, reason=reason)
        except EvidenceError as error:
            failed[each.run_id] = str(error)
            continue
        moved.append({"run_id": done.run_id, "bundle": done.bundle, "place": str(done.place), "values": done.values})
    if moved:
        try:
            store.scrub()
        except StoreBusy:
            say("the log of the store is emptied when nobody reads it any more", err=True)
    return moved, failed


def bring_back(store: Store, target: str, *, yes: bool, as_json: bool) -> None:
    from reenact.cli.screens.printing import plural, print_json
    from reenact.record.archive.restoring import restore, would_restore

    done = restore(store, target) if yes else would_restore(store, target)
    if as_json:
        print_json(
            {"run_id": done.run_id, "place": str(done.place), "values": done.values, "erased": done.erased, "done": yes}
        )
        return
    verb = "restored" if yes else "would be restored; say it with --yes"
    say(f"{plural(done.values, 'value')} of run {done.run_id} from {done.place} {verb}")
    if done.erased:
        say(f"{plural(done.erased, 'value')} in it were erased since, and stay so", err=True)


def show(
    found: list[Candidate],
    moved: list[dict[str, object]],
    failed: dict[str, str],
    folder: Path,
    *,
    done: bool,
    as_json: bool,
) -> None:
    from reenact.cli.screens.printing import one_line, plural, print_json

    if as_json:
        runs = [{"run_id": each.run_id, "sealed_at": each.sealed_at, "kept": each.kept} for each in found]
        print_json({"runs": runs, "to": str(folder), "done": done, "moved": moved, "failed": failed})
        return
    for each in found if not done else ():
        say(f"{each.run_id}  sealed {each.sealed_at}" + (f"  stays: {each.kept}" if each.kept else ""))
    for run_id, why in failed.items():
        say(f"error: run {run_id} stays: {one_line(why)}", err=True)
    if done:
        values = sum(int(str(each["values"])) for each in moved)
        say(f"{plural(len(moved), 'run')}, {plural(values, 'value')} moved to {folder}")
    else:
        count = sum(each.kept is None for each in found)
        say(f"{plural(count, 'run')} would go to {folder}" + ("; say it with --yes" if count else ""))
