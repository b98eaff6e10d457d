"""`reenact db`: a whole store, moved to another place."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reenact.cli.options import JsonOption
from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.store.copying.moving import Progress


class Action(StrEnum):
    """What to do."""

    COPY = "copy"


def db(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    source: Annotated[str | None, typer.Argument(metavar="[FROM]", help="The store: its URL or path.")] = None,
    target: Annotated[
        str | None, typer.Argument(metavar="[TO]", help="Where it goes: a place where there is no store yet.")
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Take back a copy that is not whole; the store is used again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a whole store to another place, with its id, its numbers and its chains.

    Every run is verified before and afterwards, and every row compared. While the copy is made nobody can write to the
    store, and afterwards neither: whoever tries is told where it went; it can still be read. Stopped at any point, say
    it again: it goes on. Keys are not copied: they stay where they are.

    Exit codes: 0 done, 1 a run does not verify, or the copy is not what was copied, 2 usage, or there is a store at TO,
    3 a place cannot be used, or somebody works on a run.
    """
    from reenact.errors import UsageError

    assert action is Action.COPY
    if source is None or target is None:
        raise UsageError("say from where and to where: `reenact db copy FROM TO`")
    copy(source, target, give_up=give_up, as_json=as_json)


def copy(source: str, target: str, *, give_up: bool, as_json: bool) -> None:
    from reenact.cli.options import refuse_missing
    from reenact.cli.screens.printing import plural, print_json
    from reenact.store.copying import moving
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
            done = moving.move(one, other, progress)
        if as_json:
            print_json({"from": one.shown, "to": other.shown, **done._asdict()})
            return
        say(f"{plural(done.runs, 'run')}, {plural(done.rows, 'row')} copied to {other.shown}; every run verifies there")
        say(f"{one.shown} takes no more runs; name the copy with --store or REENACT_STORE")
        if done.keys:
            say("its keys were not copied, and the copy needs them:")
        for key, place in done.keys:
            say(f"  {shlex.join(['cp', '-p', key, place])}")


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
