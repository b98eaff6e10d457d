"""Notes beside the journal: what is signed, by whom, for which store, and the copy for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tools.vectors.pieces import b64, kid_of
from tools.vectors.writer import note, signed_note

from tests.tampering.evidence import STORE, STRANGER, about, beginning, note_lines, whole
from tests.tampering.forging import lines_of, remade
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, edit

NAME, COPY = "notes.jsonl", "seal.note"
Notes = list[dict[str, Any]]


def notes(change: Callable[[Notes], Notes | None]) -> Change:
    def changed(files: Files) -> Files:
        found = lines_of(files[NAME])
        made = change(found)
        return remade({**files, NAME: note_lines(found if made is None else made)})

    return changed


def one(schema: str, change: Callable[[dict[str, Any]], object]) -> Change:
    """The note of this schema, changed in place."""
    return notes(lambda found: change(next(each for each in found if schema in each["schema"])))  # type: ignore[func-returns-value]


def without(schema: str) -> Change:
    return notes(lambda found: [each for each in found if schema not in each["schema"]])


def by_another(line: dict[str, Any]) -> None:
    """Signed by a stranger in the store's name."""
    line["signature"] = note(STRANGER, line["schema"], line["digest"])["signature"]


def for_another_store(line: dict[str, Any]) -> None:
    text = f"{line['schema']}\nanother-store\n{line['digest']}\n"
    line.update(store_id="another-store", signature=b64(STORE.sign(text.encode())))


def copy_gone(change: Change) -> Change:
    return both(change, drop(COPY), remade)


def copy(change: Callable[[bytes], bytes]) -> Change:
    return both(edit(COPY, change), remade)


def kinds() -> Iterator[Kind]:
    seal = "seal.v1"
    yield Kind("the note about the seal taken out", "plan", copy_gone(without(seal)))
    yield Kind("the note about the seal, signed by a stranger", "plan", copy_gone(one(seal, by_another)))
    yield Kind(
        "the note about the seal, of another digest", "plan", copy_gone(one(seal, lambda n: n.update(digest="a" * 64)))
    )
    yield Kind(
        "the note about the seal, of another key",
        "plan",
        copy_gone(one(seal, lambda n: n.update(kid=kid_of(STRANGER)))),
    )
    yield Kind("the note about the seal, for another store", "plan", copy_gone(one(seal, for_another_store)))
    yield Kind(
        "the note about the seal, as another thing",
        "plan",
        copy_gone(one(seal, lambda n: n.update(schema="reenact.run_checkpoint.v1"))),
    )
    yield Kind("the note about the seal, with a key more", "plan", copy_gone(one(seal, lambda n: n.update(more=1))))
    yield Kind("the note about the seal, cut", "plan", copy_gone(one(seal, lambda n: n.update(signature="x"))))
    yield Kind("the note about the seal twice, once signed by a stranger", "plan", copy_gone(notes(_twice)))
    yield Kind("the note about a vote, signed by a stranger", "session", one("vote.v1", by_another))
    yield Kind(
        "the note about a run checkpoint, signed by a stranger", "checkpointed", one("run_checkpoint", by_another)
    )
    yield Kind("a broken lease, signed by a stranger", "session", one("lease_broken", by_another))
    yield Kind("the count of erasures, signed by a stranger", "session", one("erasures.v1", by_another))
    yield Kind("the beginning of what is signed, by a stranger", "plan", one("signing", by_another))
    yield Kind("the beginning of what is signed taken out", "plan", without("signing"))
    yield Kind("two beginnings of what is signed", "plan", notes(lambda found: [beginning(STORE), *found]))
    yield Kind(
        "a record that its note does not sign",
        "plan",
        one("signing", lambda n: n["record"].update(ts="2026-01-01T00:00:00.000Z")),
    )
    yield Kind("a record of a note in another form", "plan", one("signing", lambda n: n["record"].update(more=1)))
    yield Kind("notes of which the first is of another store", "plan", notes(_first_of_another_store))
    yield Kind("notes that are all of another store", "plan", copy_gone(notes(_all_of_another_store)))
    yield Kind("notes in another order", "rotated", notes(lambda found: found[::-1]))
    yield Kind("a record of a note with a key more, signed", "session", notes(_lease({"more": 1})))
    yield Kind("a record of a note that signs another one", "session", notes(_lease({}, digest="a" * 64)))
    yield Kind("a broken lease of another store", "session", one("lease_broken", for_another_store))
    yield Kind("an open run with the note about a seal", "open", _with_notes(lambda: _of_seal(whole("plan"))))
    yield Kind(
        "an open run with a seal", "open", lambda files: remade({**files, "seal.json": whole("plan")["seal.json"]})
    )
    yield Kind("an open run with the notes of another store", "open", _with_notes(_of_another_store))
    yield Kind("a note that is no JSON", "plan", both(edit(NAME, lambda data: b"{\n" + data), remade))
    yield Kind(
        "the copy of the note with another text", "plan", copy(lambda data: data.replace(b"seal.v1", b"seal.v2"))
    )
    yield Kind(
        "the copy of the note with another signature",
        "plan",
        copy(lambda _: signed_note(STRANGER, "reenact.seal.v1", "a" * 64)),
    )
    yield Kind(
        "the copy of the note without its signature", "plan", copy(lambda data: data.partition(b"\n\n")[0] + b"\n")
    )
    yield Kind("the copy of the note signed once more", "plan", copy(lambda data: data + _line_of_stranger(data)))
    yield Kind(
        "the copy of the note of another run", "plan", copy(lambda _: signed_note(STORE, "reenact.seal.v1", "a" * 64))
    )


def _twice(found: Notes) -> Notes:
    seal = next(each for each in found if each["schema"] == "reenact.seal.v1")
    forged = dict(seal)
    by_another(forged)
    return [*found, forged]


def _first_of_another_store(found: Notes) -> None:
    record = found[0]["record"]
    text = f"{found[0]['schema']}\nanother-store\n{found[0]['digest']}\n"
    found[0] |= {"store_id": "another-store", "signature": b64(STORE.sign(text.encode()))}
    assert record


def _all_of_another_store(found: Notes) -> None:
    for each in found:
        for_another_store(each)


def _lease(more: dict[str, Any], **fields: Any) -> Callable[[Notes], Notes]:
    """The note that somebody broke a lease, which nothing else rests on."""

    def changed(found: Notes) -> Notes:
        at = next(number for number, each in enumerate(found) if "lease_broken" in each["schema"])
        record = {**found[at]["record"], **more}
        made = about(record, STORE)
        signed = {**note(STORE, made["schema"], fields["digest"]), "record": record} if fields else made
        return [*found[:at], signed, *found[at + 1 :]]

    return changed


def _with_notes(make: Callable[[], Notes]) -> Change:
    return lambda files: remade({**files, NAME: note_lines(make())})


def _of_seal(files: Files) -> Notes:
    return [each for each in lines_of(files[NAME]) if each["schema"] == "reenact.seal.v1"]


def _of_another_store() -> Notes:
    found = [beginning(STORE)]
    _all_of_another_store(found)
    return found


def _line_of_stranger(data: bytes) -> bytes:
    digest = data.split(b"\n")[2].decode()
    return signed_note(STRANGER, "reenact.seal.v1", digest).splitlines(keepends=True)[-1]
