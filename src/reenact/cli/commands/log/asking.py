"""Witnesses and anchors of a log: which there are, and the newest head taken to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from reenact.cli.screens.printing import say

if TYPE_CHECKING:
    from reenact.store.base import Store
    from reenact.store.log.rows import Peer


def ask(url: str | None, kind: str, words: list[str], key: str | None, every: float | None, *, as_json: bool) -> None:
    from reenact.cli.options import existing_store
    from reenact.errors import UsageError

    store = existing_store(url, to_write=True)
    match words:
        case ["add", place]:
            add(store, kind, place, key)
        case ["remove", place]:
            remove(store, kind, place)
        case ["list"]:
            show(store, kind, as_json=as_json)
        case ["collect"]:
            collect(store, every, as_json=as_json)
        case _:
            raise UsageError(f"write `reenact log {kind} add …`, `list`, `remove …` or `collect`")


def add(store: Store, kind: str, place: str, key: str | None) -> None:
    from reenact.errors import UsageError
    from reenact.store.log.rows import Peer
    from reenact.verify.signed.signed_note import COSIGNATURE, read_vkey
    from reenact.witness.anchors import check_place
    from reenact.witness.client import check_url

    if kind == "anchor":
        where = check_place(place)
        store.log.ask(Peer(where, kind, where))
        say(f"heads of {store.log.origin} go to {where}; `reenact log witness collect` takes them there")
        return
    if key is None:
        raise UsageError("name the witness's key with --key: without it nobody could tell its word from another's")
    vkey = read_vkey(key)
    if vkey.kind != COSIGNATURE:
        raise UsageError("this is no key of a witness: a verifier key of kind 4 is, for cosignatures")
    store.log.ask(Peer(str(vkey), kind, check_url(place)))
    say(f"{vkey.name} at {place} is asked from here on; its operator needs the log's key:")
    say(str(store.log.vkey(store.signing_key.kid)))


def remove(store: Store, kind: str, place: str) -> None:
    from reenact.errors import UsageError

    found = [peer for peer in store.log.rows.peers(kind) if place.rstrip("/") in (peer.url, peer.name, short(peer))]
    if not found:
        raise UsageError(f"no {kind} {place!r}; `reenact log {kind} list` shows them")
    for peer in found:
        store.log.rows.drop_peer(peer.name)
        say(f"{short(peer)} is not asked any more; what it said stays")


def short(peer: Peer) -> str:
    return peer.name.partition("+")[0] if peer.kind == "witness" else peer.name


def show(store: Store, kind: str, *, as_json: bool) -> None:
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.values.clock import say_ts

    peers = store.log.rows.peers(kind)
    if as_json:
        print_json([peer._asdict() for peer in peers])
        return
    for peer in peers:
        trouble = f", {one_line(peer.trouble)}; again at {say_ts(peer.next_ms)}" if peer.trouble else ""
        say(f"{one_line(short(peer))}  {one_line(peer.url)}  has size {peer.seen}{trouble}")


def collect(store: Store, every: float | None, *, as_json: bool) -> None:
    from reenact.cli.exits import FAILED
    from reenact.cli.screens.printing import one_line, print_json
    from reenact.errors import KeyUnavailable, StoreBusy, StoreGone, StoreUnavailable
    from reenact.values.clock import SystemClock
    from reenact.witness.collecting import collect as collect_all

    clock, trouble = SystemClock(), ""
    while True:
        try:
            found = collect_all(store, clock, only_due=every is not None)
            trouble = ""
        except (StoreBusy, StoreUnavailable, KeyUnavailable) as error:
            if every is None or isinstance(error, StoreGone):
                raise
            if str(error) != trouble:
                trouble = str(error)
                say(f"no head could be signed or read: {one_line(trouble)}; tried again", err=True)
            wait(every)
            continue
        if as_json:
            print_json([each._asdict() for each in found])
        for each in found if not as_json else ():
            if every is None or each.state not in ("has it", "later"):
                say(f"{one_line(each.name.partition('+')[0])}  {each.state}  {one_line(each.says)}".rstrip())
        if every is None:
            break
        wait(every)
    if any(not each.is_well for each in found):
        raise typer.Exit(FAILED)


def wait(seconds: float) -> None:
    import threading

    threading.Event().wait(seconds)
