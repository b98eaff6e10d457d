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
    SHOW = "show"
    NEW = "new"
    MAKE = "make"
    ROTATE = "rotate"
    REPLACE = "replace"
    TRUST = "trust"
    VOUCH = "vouch"


def keys(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|KEY]", help="Where `new` puts a key; the key file to `show`; the public key to `trust`."
        ),
    ] = None,
    lost: Annotated[bool, typer.Option("--lost", help="With `replace`: the old key cannot be found.")] = False,
    public: Annotated[bool, typer.Option("--public", help="With `list`: {kid: key}, for verify --keys.")] = False,
    name: Annotated[str, typer.Option("--name", help="With `trust`: who has the key, in your words.")] = "",
    purposes: Annotated[
        str, typer.Option("--for", metavar="PURPOSES", help="With `trust`: seals, capabilities, log, joined by commas.")
    ] = "seals,capabilities,log",
    trusted: Annotated[
        Path | None, typer.Option("--keys", metavar="FILE", help="With `trust`: the list, instead of your own.")
    ] = None,
    reason: ReasonOption = "",
    who: WhoOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List or show the keys that sign for a store, make one, rotate to it, replace one that is lost; trust another's.

    `show` prints a key as others need it: its name (kid), its public half, and the verifier key that any program for
    signed notes takes. `trust` puts such a key of somebody else's into your list: `verify` then says whose word it is.

    A rotation is signed by the key before it. A replacement is signed by the new key alone, for the open runs as they
    stand: they go on, and `verify` says that the old key did not vouch for it. To `vouch` is for a store that was
    written before its key vouched for everything, or whose idempotency keys somebody changed: look first, with
    `verify`. `make` is an older name of `new`.

    Exit codes: 0 done, 1 what is on record is not signed as it must be, 2 not possible, 3 the store or a file cannot be
    used, 4 a key that is needed is not here, or a run was left without one.
    """
    from reenact.errors import UsageError

    if what is not None and action not in (Action.NEW, Action.MAKE, Action.SHOW, Action.TRUST):
        raise UsageError("only `reenact keys new`, `show` and `trust` take a file or a key")
    if action in (Action.NEW, Action.MAKE):
        make(what, as_json=as_json)
    elif action is Action.SHOW:
        show(what, store, as_json=as_json)
    elif action is Action.TRUST:
        trust(what, name, purposes, trusted, as_json=as_json)
    elif action is Action.LIST:
        list_all(store, public=public, as_json=as_json)
    elif action is Action.VOUCH:
        vouch(store, as_json=as_json)
    elif action is Action.ROTATE:
        rotate(store, who, as_json=as_json)
    else:
        replace(store, who, reason, lost=lost, as_json=as_json)


def show(file: str | None, store: str | None, *, as_json: bool) -> None:
    """Of a key file, or of all that sign for a store."""
    from reenact.cli.options import existing_store
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.store.keys.keeping import shown_file, shown_keys

    shown = shown_keys(existing_store(store, to_write=True)) if file is None else [shown_file(Path(file))]
    if as_json:
        print_json([dict(each) for each in shown])
        return
    for number, each in enumerate(shown):
        if number:
            say("")
        for label, value in each.items():
            say(f"{label.replace('_', ' '):<12}  {one_line(value)}")


def trust(text: str | None, name: str, purposes: str, file: Path | None, *, as_json: bool) -> None:
    from dataclasses import replace

    from reenact.cli.screens.printing import print_json
    from reenact.errors import UsageError
    from reenact.store.keys.trusted import add_trusted, trust_file
    from reenact.verify.capability import PURPOSES
    from reenact.verify.signed.trust import read_public, read_purposes, refuse_name

    if text is None or not name:
        raise UsageError("say which key, and whose it is: `reenact keys trust KEY --name 'acme billing'`")
    refuse_name(name)
    key = replace(read_public(text), name=name, purposes=read_purposes(purposes))
    place = trust_file() if file is None else file
    if place is None:
        raise UsageError("you have no home directory; name the list with --keys")
    add_trusted(place, key)
    wanted = [each for each in PURPOSES if each in key.purposes]
    if as_json:
        document = {"kid": key.kid, "name": name, "for": wanted, "store_id": key.store_id, "file": str(place)}
        print_json(document)
        return
    of = "every store that it signs for" if key.store_id is None else f"store {key.store_id}"
    say(f'key {key.kid} is trusted as "{name}" for {", ".join(wanted)} of {of}: {place}')


def make(file: str | None, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import print_json
    from reenact.errors import UsageError
    from reenact.store.keys.keeping import make_key

    if file is None:
        raise UsageError("name the file for the new key: `reenact keys new FILE`")
    made = make_key(Path(file))
    if as_json:
        print_json({"kid": made.kid, "public_key": made.public_key, "where": str(file)})
        return
    say(f"key {made.kid} is in {file}; name it in REENACT_SIGNING_KEY, and keep a copy elsewhere")


def list_all(store: str | None, *, public: bool, as_json: bool) -> None:
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
