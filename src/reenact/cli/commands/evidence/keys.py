"""`reenact keys`: the keys that sign for a store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, ReasonOption, StoreOption, WhoOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.store.keys.keeping import KeyLine


class Action(StrEnum):
    """What to do."""

    LIST = "list"
    MAKE = "make"
    ROTATE = "rotate"
    REPLACE = "replace"
    VOUCH = "vouch"


def keys(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where `make` puts a new key.")] = None,
    lost: Annotated[bool, typer.Option("--lost", help="With `replace`: the old key cannot be found.")] = False,
    public: Annotated[bool, typer.Option("--public", help="With `list`: {kid: key}, for verify --keys.")] = False,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the keys that sign for a store, make one, rotate to a new one, replace one that is lost, or vouch.

    A rotation is signed by the key before it. A replacement is signed by the new key alone, for the open runs as they
    stand: they go on, and `verify` says that the old key did not vouch for it. To vouch is for a store that was written
    before its key vouched for everything, or whose idempotency keys somebody changed: look first, with `verify`.

    Exit codes: 0 done, 1 what is on record is not signed as it must be, 2 not possible, 3 the store cannot be used,
    4 a key that is needed is not here, or a run was left without one.
    """
    from reenact.errors import UsageError

    if action is Action.MAKE:
        make(file, as_json=as_json)
    elif file is not None:
        raise UsageError("only `reenact keys make` takes a file")
    elif action is Action.LIST:
        show(store, public=public, as_json=as_json)
    elif action is Action.VOUCH:
        vouch(store, as_json=as_json)
    elif action is Action.ROTATE:
        rotate(store, who, as_json=as_json)
    else:
        replace(store, who, reason, lost=lost, as_json=as_json)


def make(file: Path | None, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import print_json
    from reenact.errors import UsageError
    from reenact.store.keys.keeping import make_key

    if file is None:
        raise UsageError("name the file for the new key: `reenact keys make FILE`")
    made = make_key(file)
    if as_json:
        print_json({"kid": made.kid, "public_key": made.public_key, "where": str(file)})
        return
    say(f"key {made.kid} is in {file}; name it in REENACT_SIGNING_KEY, and keep a copy elsewhere")


def show(store: str | None, *, public: bool, as_json: bool) -> None:
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import print_json
    from reenact.store.keys.keeping import list_keys, public_keys

    opened = existing_store(store, to_write=True)
    if public:
        print_json(public_keys(opened))
        return
    listed = list_keys(opened)
    if as_json:
        print_json([line.document() for line in listed])
    else:
        for line in listed:
            say(key_line(line))
    if any(line.is_needed and line.where is None for line in listed):
        raise typer.Exit(4)


def key_line(line: KeyLine) -> str:
    from reenact.cli.screens.printing import one_line, plural

    needed = f", needed by {plural(len(line.open_runs), 'open run')}" if line.open_runs else ""
    where = "NOT HERE" if line.where is None else one_line(line.where)
    return f"{line.kid}  {line.state:<8}  since {line.since or 'unknown'}  {where}{needed}"


def vouch(store: str | None, *, as_json: bool) -> None:
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import plural, print_json

    left = existing_store(store, to_write=True).vouch()
    if as_json:
        print_json({"commits_of_nobody": left})
        return
    say(
        f"the store's key vouches for open runs that verify and for idempotency keys; {plural(left, 'commit')} left out"
    )


def rotate(store: str | None, who: str | None, *, as_json: bool) -> None:
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import print_json
    from reenact.runtime.people.votes import whoami
    from reenact.store.keys.keeping import rotate_key

    done = rotate_key(existing_store(store, to_write=True), who=whoami(who))
    if as_json:
        print_json({"old_kid": done.old_kid, "new_kid": done.new_kid, "at": done.ts})
        return
    say(f"key {done.new_kid} signs new runs; {done.old_kid} vouched for it, and stays needed by its open runs")


def replace(store: str | None, who: str | None, reason: str, *, lost: bool, as_json: bool) -> None:
    from reenact.cli.exits import DONE, OPEN
    from reenact.cli.options import existing_store, require_reason
    from reenact.cli.screens.printing import one_line, plural, print_json
    from reenact.errors import UsageError
    from reenact.runtime.people.votes import whoami
    from reenact.store.keys.keeping import replace_key

    if not lost:
        raise UsageError("a key that is here is rotated: `reenact keys rotate`; say --lost where it cannot be found")
    require_reason(reason)
    done, left = replace_key(existing_store(store, to_write=True), who=whoami(who), reason=reason)
    if as_json:
        documents = [{"old_kid": one.old_kid, "new_kid": one.new_kid, "runs": one.runs} for one in done]
        print_json({"replaced": documents, "left_out": left})
        raise typer.Exit(OPEN if left else DONE)
    for one in done:
        say(f"key {one.new_kid} signs in the place of {one.old_kid}, for {plural(len(one.runs), 'open run')}")
    for run_id, why in left.items():
        say(f"run {run_id} does not go on with it: {one_line(why)}")
    say("keep a copy of the new key elsewhere; `reenact recover` goes on with the runs")
    raise typer.Exit(OPEN if left else DONE)
