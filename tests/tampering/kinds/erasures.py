"""What was erased or archived: the records of it, who signed them, and values that are there although they are gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tools.vectors.bundle_vectors import with_views
from tools.vectors.pieces import b64, kid_of, public_bytes, uid, with_digest
from tools.vectors.scenarios import session
from tools.vectors.writer import note

from reenact.values.canonical import canonicalize
from tests.tampering.evidence import FIRST_KEY, STORE, STRANGER, about, beginning, note_lines, replacement, rotation
from tests.tampering.forging import jsonl, lines_of, remade
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop

NAME = "erasures.jsonl"
Records = list[dict[str, Any]]


def records(change: Callable[[Records], Records | None]) -> Change:
    def changed(files: Files) -> Files:
        found = lines_of(files[NAME])
        made = change(found)
        return remade({**files, NAME: jsonl(found if made is None else made)})

    return changed


def digested(record: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return with_digest({**{key: value for key, value in record.items() if key != "digest"}, **changes})


def noted_by(key: Any, number: int, **changes: Any) -> Change:
    """The notes about the records that are there, one of them by this key."""

    def changed(files: Files) -> Files:
        found = lines_of(files[NAME])
        notes = [each for each in lines_of(files["notes.jsonl"]) if "erasure.v" not in each["schema"]]
        for at, record in enumerate(found):
            signer = key if at == number else STORE
            about = note(signer, record["schema"], record["digest"])
            notes.append({**about, **changes} if at == number else about)
        return remade({**files, "notes.jsonl": note_lines(notes)})

    return changed


def rechained(found: Records, number: int, **changes: Any) -> Records:
    """One of them changed, and those behind it made to follow."""
    made: Records = []
    for at, record in enumerate(found):
        prev = made[-1]["digest"] if made else record["prev"]
        made.append(digested(record, **{"prev": prev, **(changes if at == number else {})}))
    return made


def restored(number: int) -> Change:
    """The value is there again."""

    def changed(files: Files) -> Files:
        commitment = lines_of(files[NAME])[number]["commitment"]
        return remade({**files, f"payloads/{commitment}": session().payloads[commitment]})

    return changed


def _counted_others(files: Files) -> Files:
    """When the run was sealed there was one, which is another now."""
    notes = lines_of(files["notes.jsonl"])
    at = next(number for number, each in enumerate(notes) if "erasures.v1" in each["schema"])
    notes[at] = about({**notes[at]["record"], "erasures": {"count": 1, "head": "b" * 64}}, STORE)
    return remade({**files, "notes.jsonl": note_lines(notes)})


def kinds() -> Iterator[Kind]:
    of = "session"
    yield Kind("an erasure record taken out", of, records(lambda found: found[1:]))
    yield Kind("all erasure records taken away", of, both(drop(NAME), remade))
    yield Kind("an erasure record repeated", of, records(lambda found: [*found, found[0]]))
    yield Kind("erasure records exchanged", of, records(lambda found: found[::-1]))
    yield Kind("who erased", of, records(lambda found: found[0].update(who="mallory")))
    yield Kind(
        "why it was erased, with its digest", of, records(lambda found: [digested(found[0], reason="?"), found[1]])
    )
    yield Kind("why it was erased, with all digests", of, records(lambda found: rechained(found, 0, reason="?")))
    yield Kind(
        "an erasure in the name of another run, with all digests",
        of,
        both(records(lambda found: rechained(found, 0, run_id=uid(0x66))), noted_by(STORE, 0)),
    )
    yield Kind(
        "an erasure of another value, with all digests",
        of,
        records(lambda found: rechained(found, 0, commitment="a" * 64)),
    )
    yield Kind(
        "two erasures that follow one", of, records(lambda found: [*found, digested(found[1], reason="once more")])
    )
    yield Kind(
        "a first erasure that is not the first",
        of,
        records(lambda found: [found[0], found[1], digested(found[0], prev="0" * 64, reason="again")]),
    )
    yield Kind(
        "archived, and not where",
        "session without views",
        both(records(lambda found: rechained(found, 1, bundle=None)), noted_by(STORE, 1)),
    )
    yield Kind("archived after it was erased", of, both(records(_archived_again), noted_by(STORE, 2)))
    yield Kind("an erasure record that is no JSON", of, lambda files: remade({**files, NAME: b"{\n" + files[NAME]}))
    yield Kind(
        "a first erasure after another, signed",
        of,
        both(records(lambda found: [found[1], digested(found[0], reason="again")]), noted_by(STORE, 1)),
    )
    yield Kind(
        "an erasure record of a store after another one than it names, signed",
        of,
        both(records(lambda found: [found[0], digested(found[1], prev="a" * 64)]), noted_by(STORE, 1)),
        "store",
    )
    yield Kind("other erasures than were counted", of, _counted_others, "store")
    yield Kind("the digest of an erasure record", of, records(lambda found: found[-1].update(digest="a" * 64)))
    yield Kind(
        "an erasure record with a key more, signed",
        of,
        both(records(lambda found: rechained(found, 1, more=1)), noted_by(STORE, 1)),
    )
    yield Kind("an erasure record with a key more", of, records(lambda found: found[0].update(more=1)))
    yield Kind(
        "an erasure record of a version to come",
        of,
        records(lambda found: rechained(found, 0, schema="reenact.erasure.v9")),
    )
    yield Kind("an erased value that is there again", of, restored(0))
    yield Kind(
        "an erasure signed by another key, in the store's name",
        of,
        noted_by(STRANGER, 0, kid=note(STORE, "x", "y")["kid"]),
    )
    yield Kind("an erasure signed by another key", of, noted_by(STRANGER, 0))
    yield Kind("an erasure that nobody signed", of, _unsigned)
    for name, change in unsigned_ways():
        yield Kind(f"an answer hidden as erased, {name}", of, change)
    yield Kind(f"an answer hidden as erased, {name}: who knows the store's key", of, change, "keys")
    yield Kind("an erasure signed for another store", of, noted_by(STORE, 0, store_id="another-store"))


# -- a value that somebody hides, and calls erased ---------------------------------------------------------------------


def hidden(
    *notes: dict[str, Any] | Callable[[str], dict[str, Any]], keeps: Callable[[str], bool], **keys: str
) -> Change:
    """One more answer taken away, with a record of its own behind the others; `notes` come with it."""

    def changed(files: Files) -> Files:
        found = lines_of(files[NAME])
        taken = next(name for name in sorted(files) if name.startswith("payloads/") and is_answer(files, name[9:]))
        record = digested(found[0], commitment=taken[9:], prev=found[-1]["digest"])
        kept = [each for each in lines_of(files["notes.jsonl"]) if keeps(each["schema"])]
        more = [each(record["digest"]) if callable(each) else each for each in notes]
        public = {**json.loads(files["keys.json"]), **keys}
        remaining = {name: data for name, data in files.items() if name != taken}
        remaining["keys.json"] = canonicalize(public) + b"\n"
        remaining["notes.jsonl"] = note_lines([*(each for each in more if each.get("record")), *kept])
        remaining["notes.jsonl"] += note_lines(each for each in more if not each.get("record"))
        run_id = json.loads(files["manifest.json"])["run_id"]
        return remade(with_views({**remaining, NAME: jsonl([*found, record])}, run_id))

    return changed


def is_answer(files: Files, commitment: str) -> bool:
    return b'"hash":"%s","pointer":"/output"' % commitment.encode() in files["journal.jsonl"]


def unsigned_ways() -> Iterator[tuple[str, Change]]:
    mine = {kid_of(STRANGER): b64(public_bytes(STRANGER))}

    def by(key: Any) -> Callable[[str], dict[str, Any]]:
        return lambda digest: note(key, "reenact.erasure.v1", digest)

    def everything(_: str) -> bool:
        return True

    def but_the_beginning(schema: str) -> bool:
        return not any(word in schema for word in ("signing", "lease", "erasures"))

    yield "with a record that nobody signed", hidden(keeps=everything)
    yield "signed by a stranger, whose key comes along", hidden(by(STRANGER), keeps=everything, **mine)
    yield "and the beginning taken away", hidden(keeps=but_the_beginning)
    yield "by a stranger, and the beginning taken away", hidden(by(STRANGER), keeps=but_the_beginning, **mine)
    yield (
        "by a stranger who has made a beginning of his own",
        hidden(by(STRANGER), beginning(STRANGER, STORE), keeps=but_the_beginning, **mine),
    )
    yield (
        "with a beginning that counts it among those of before",
        hidden(beginning(STRANGER, STORE, erased=3), keeps=but_the_beginning, **mine),
    )
    yield (
        "by a key that a stranger rotated to the store's",
        hidden(by(STRANGER), beginning(STRANGER), rotation(STRANGER, STORE), keeps=but_the_beginning, **mine),
    )
    replaced = (beginning(FIRST_KEY, STORE), replacement(FIRST_KEY, STRANGER))
    yield (
        "by a key that another one was replaced with",
        hidden(by(STRANGER), *replaced, keeps=but_the_beginning, **mine),
    )
    replaced = (beginning(STORE), replacement(STORE, STRANGER))
    yield (
        "by a key that the store's was replaced with",
        hidden(by(STRANGER), *replaced, keeps=but_the_beginning, **mine),
    )


def _archived_again(found: Records) -> Records:
    moved = digested(found[1], commitment=found[0]["commitment"], prev=found[1]["digest"])
    return [*found, moved]


def _unsigned(files: Files) -> Files:
    notes = [each for each in lines_of(files["notes.jsonl"]) if "erasure.v" not in each["schema"]]
    return remade({**files, "notes.jsonl": note_lines(notes)})
