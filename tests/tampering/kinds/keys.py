"""Keys: those of the bundle, and how one of the store followed another, by rotation and by replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from tools.vectors.pieces import b64, kid_of, public_bytes, uid
from tools.vectors.scenarios import FETCH, plan
from tools.vectors.writer import Run, bundle_files

from reenact.values.canonical import canonicalize
from tests.tampering.evidence import (
    FIRST_KEY,
    LOST_KEY,
    STORE,
    STRANGER,
    about,
    beginning,
    note_lines,
    replaced_run,
    replacement,
    rotation,
)
from tests.tampering.forging import remade
from tests.tampering.kinds.kind import Change, Files, Kind
from tests.tampering.kinds.notes import Notes, by_another, notes, one, without

NAME = "keys.json"


def keys(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Change:
    def changed(files: Files) -> Files:
        found = msgspec.json.decode(files[NAME])
        made = change(found)
        return remade({**files, NAME: canonicalize(found if made is None else made) + b"\n"})

    return changed


def second(line: dict[str, Any]) -> Change:
    """Another note in the place of the one that tells of the second key."""

    def changed(found: Notes) -> None:
        found[1] = line

    return notes(changed)


def recorded(line: dict[str, Any], signed_by: Any, **changes: Any) -> dict[str, Any]:
    return about({**line["record"], **changes}, signed_by)


def kinds() -> Iterator[Kind]:
    run, head = replaced_run()
    kid, here = kid_of(STORE), b64(public_bytes(STORE))
    turned, lost = rotation(FIRST_KEY, STORE), replacement(LOST_KEY, STORE, [run.run_id, 1, head])
    yield Kind("another key under the same name", "plan", keys(lambda k: k.update({kid: b64(public_bytes(STRANGER))})))
    yield Kind("the key under another name", "plan", keys(lambda k: {"a" * 16: here}))
    yield Kind("the key cut", "plan", keys(lambda k: {kid: here[:-2]}))
    yield Kind(
        "a key that signed nothing in its place",
        "plan",
        keys(lambda k: {kid_of(STRANGER): b64(public_bytes(STRANGER))}),
    )
    yield Kind("a key more that is none", "plan", keys(lambda k: {**k, "b" * 16: "AAAA"}))
    yield Kind("an open run that ends before its key was replaced", "open", _before_its_replacement)
    more = {kid_of(STRANGER): b64(public_bytes(STRANGER))}
    yield Kind("a key of a store that nobody vouched for", "plan", keys(lambda k: {**k, **more}), "store")
    yield Kind("no key", "plan", keys(lambda k: {}))
    yield Kind("keys that are a list", "plan", lambda files: remade({**files, NAME: b"[]\n"}))
    yield Kind("a key under a name that is none", "plan", keys(lambda k: {**k, "mine": here}))
    yield Kind("a rotation signed by a stranger", "rotated", one("rotation", by_another))
    yield Kind("a rotation that the new key signed itself", "rotated", second(rotation(FIRST_KEY, STORE, STORE)))
    yield Kind("a rotation of a key that never signed", "rotated", second(rotation(STRANGER, STORE)))
    yield Kind("a rotation to a key of another name", "rotated", second(recorded(turned, FIRST_KEY, new_kid="a" * 16)))
    yield Kind("a rotation taken out: who trusts the first key", "rotated first", without("rotation"), "first key")
    yield Kind(
        "a rotation signed by a stranger: who trusts the first key",
        "rotated first",
        one("rotation", by_another),
        "first key",
    )
    yield Kind("a beginning with a key of another name", "plan", notes(_misnamed))
    for name, line in (
        ("of a key that never signed", rotation(STRANGER, LOST_KEY)),
        ("to a key of another name", recorded(rotation(STORE, LOST_KEY), STORE, new_kid="a" * 16)),
        ("that the new key signed itself", rotation(STORE, STRANGER, STRANGER)),
    ):
        yield Kind(f"a rotation more {name}", "rotated", notes(lambda found, line=line: [*found, line]))
    often = replacement(LOST_KEY, STORE, [run.run_id, 1, head], *[[uid(0x66), n + 1, "a" * 64] for n in range(1001)])
    yield Kind("a replacement that a run names more often than anybody looks at", "replaced", second(often))
    yield Kind("a replacement taken out", "replaced", without("replacement"))
    yield Kind("a replacement signed by a stranger", "replaced", one("replacement", by_another))
    yield Kind(
        "a replacement of a key that never signed",
        "replaced",
        second(replacement(STRANGER, STORE, [run.run_id, 1, head])),
    )
    yield Kind("a replacement to a key of another name", "replaced", second(recorded(lost, STORE, new_kid="a" * 16)))
    yield Kind(
        "a replacement at another head", "replaced", second(replacement(LOST_KEY, STORE, [run.run_id, 1, "a" * 64]))
    )
    yield Kind(
        "a replacement at another commit", "replaced", second(replacement(LOST_KEY, STORE, [run.run_id, 2, head]))
    )
    yield Kind(
        "a replacement after the run's end", "replaced", second(replacement(LOST_KEY, STORE, [run.run_id, 9, head]))
    )
    yield Kind(
        "a replacement for another run",
        "replaced",
        second(replacement(LOST_KEY, STORE, ["019b76da-a800-7000-8000-000000000066", 1, head])),
    )
    yield Kind(
        "a replacement by a stranger's key, which signs the rest",
        "replaced",
        second(replacement(LOST_KEY, STRANGER, [run.run_id, 1, head])),
    )


def _before_its_replacement(_: Files) -> Files:
    """Of whose commits the first two are there; the ninth is said to be the last that the lost key signed."""
    run = Run(0x9, plan("lost-key", [FETCH]), change={"capability_key": kid_of(LOST_KEY)})
    run.key = LOST_KEY
    run.step(0).request(risk="READ", public=["method"]).approve().call()
    run.commit()
    signed = [beginning(LOST_KEY), replacement(LOST_KEY, STORE, [run.run_id, 9, "a" * 64])]
    public = {kid_of(key): b64(public_bytes(key)) for key in (LOST_KEY, STORE)}
    return remade({**bundle_files(run), "notes.jsonl": note_lines(signed), NAME: canonicalize(public) + b"\n"})


def _misnamed(found: Notes) -> None:
    record = {**found[0]["record"], "keys": {**found[0]["record"]["keys"], "a" * 16: b64(public_bytes(STRANGER))}}
    found[0] = about(record, STORE)
