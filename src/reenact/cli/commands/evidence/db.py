"""`reenact db`: a whole store, moved to another place; the schema and the roles of one in a database."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption, StoreOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.store.copying.moving import Moved, Progress


class Action(StrEnum):
    """What to do."""

    COPY = "copy"
    UPGRADE = "upgrade"
    GRANTS = "grants"


def db(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    source: Annotated[str | None, typer.Argument(metavar="[FROM]", help="The store: its URL or path.")] = None,
    target: Annotated[
        str | None, typer.Argument(metavar="[TO]", help="Where it goes: a place where there is no store yet.")
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Take back a copy that is not whole; the store is used again.")
    ] = False,
    as_new: Annotated[
        bool, typer.Option("--as-new", help="With `copy`: make another store of it; the first one goes on.")
    ] = False,
    owner: Annotated[str, typer.Option("--owner", metavar="ROLE", help="With `grants`: who owns the tables.")] = "",
    worker: Annotated[str, typer.Option("--worker", metavar="ROLE", help="With `grants`: who runs agents.")] = "",
    eraser: Annotated[str, typer.Option("--eraser", metavar="ROLE", help="With `grants`: who may erase values.")] = "",
    auditor: Annotated[str, typer.Option("--auditor", metavar="ROLE", help="With `grants`: who only reads.")] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a whole store to another place, bring one in a database up to date, or say which rights its roles need.

    `copy` takes a store along with its id, its numbers and its chains. Every run is verified before and afterwards, and
    every row compared. While the copy is made nobody can write to the store, and afterwards neither: whoever tries is
    told where it went; it can still be read. Stopped at any point, say it again: it goes on. Keys are not copied: they
    stay where they are.

    With `--as-new` the copy is a store of its own, with another id, secret and key, and the first one goes on
    afterwards. Runs that have ended verify in it as runs of the first one, and can be replayed. Open ones are held:
    they go on where they began. What calls with keys have done, what was spent and the log are not copied.

    `upgrade` alone changes the schema of a store in a database, or makes one. A store in a file is brought up to date
    whenever it is opened.

    `grants` prints SQL, and asks no server: for an owner, a worker who adds evidence and changes none, an eraser, and
    an auditor who reads all but the secret of idempotency keys. The roles are called `reenact_owner` and so on.

    Exit codes: 0 done, 1 a run does not verify, or the copy is not what was copied, 2 usage, or there is a store at TO,
    3 a place cannot be used, or somebody works on a run.
    """
    from reenact.errors import UsageError

    if action is not Action.COPY and (source is not None or give_up or as_new):
        raise UsageError(f"`reenact db {action.value}` is about the store that --store names, and takes no place")
    if action is Action.GRANTS:
        named = {"owner": owner, "worker": worker, "eraser": eraser, "auditor": auditor}
        print_grants(store, {role: name for role, name in named.items() if name}, as_json=as_json)
        return
    if action is Action.UPGRADE:
        bring_up_to_date(store, as_json=as_json)
        return
    if source is None or target is None:
        raise UsageError("say from where and to where: `reenact db copy FROM TO`")
    copy(source, target, give_up=give_up, as_new=as_new, as_json=as_json)


def copy(source: str, target: str, *, give_up: bool, as_new: bool, as_json: bool) -> None:
    from reenact.cli.options import refuse_missing
    from reenact.cli.screens.printing import print_json
    from reenact.store.copying import moving
    from reenact.store.copying.taking import Taking
    from reenact.store.open import open_source, open_target

    refuse_missing(source)
    with open_source(source) as one, open_target(target) as other:
        if give_up:
            moving.give_up(one, other)
            if as_json:
                print_json({"from": one.shown, "to": other.shown, "given_up": True})
            else:
                say(f"what there was of the copy at {other.shown} is gone, and {one.shown} is used again")
            return
        with bars() as progress:
            done = moving.move(one, other, progress, Taking(as_new))
        if as_json:
            print_json({"from": one.shown, "to": other.shown, **done._asdict()})
            return
        tell(done, one.shown, other.shown, as_new=as_new)


def tell(done: Moved, source: str, target: str, *, as_new: bool) -> None:
    from reenact.cli.screens.printing import plural

    say(f"{plural(done.runs, 'run')}, {plural(done.rows, 'row')} copied to {target}; every run verifies there")
    if as_new:
        say(f"it is a new store, {done.store_id}, and {source} goes on as before")
        if done.held:
            say(f"{plural(done.held, 'open run')} held there: only the first store goes on with what it began")
    else:
        say(f"{source} takes no more runs; name the copy with --store or REENACT_STORE")
    if done.keys:
        say("what was encrypted needs its key:" if as_new else "its keys were not copied, and the copy needs them:")
    for key, place in done.keys:
        say(f"  {shlex.join(['cp', '-p', key, place])}")


def print_grants(store: str | None, roles: dict[str, str], *, as_json: bool) -> None:
    from reenact.cli.screens.printing import print_json
    from reenact.store.open import grants

    script = grants(store, **roles)
    if as_json:
        print_json({"sql": script})
    else:
        say(script.rstrip("\n"))


def bring_up_to_date(store: str | None, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import print_json
    from reenact.store.open import upgrade

    before, now = upgrade(store)
    if as_json:
        print_json({"before": before, "schema": now})
    elif before == 0:
        say(f"a store was made, of schema {now}")
    elif before == now:
        say(f"it has schema {now}, and needs nothing")
    else:
        say(f"it was brought from schema {before} to {now}")


@contextmanager
def bars() -> Iterator[Progress]:
    """One for each thing that is done."""
    from reenact.cli.screens.counted_bar import CountedBar

    shown: dict[str, CountedBar] = {}
    with ExitStack() as stack:

        def update(what: str, done: int, total: int) -> None:
            if what not in shown:
                stack.close()
                shown[what] = stack.enter_context(CountedBar(what))
            shown[what].update(done, total)

        yield update
