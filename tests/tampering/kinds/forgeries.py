"""One field of one record, and all that follows from it made anew: nothing, its own digest, … up to the seal; then
the note about the seal; then everything signed by somebody else; then by the owner himself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tools.vectors.pieces import b64, kid_of, public_bytes
from tools.vectors.writer import note, signed_note

from reenact.values.canonical import canonicalize
from tests.tampering.evidence import PROOF, STORE, STRANGER, WITNESS, cosignature, note_lines
from tests.tampering.forging import UP_TO, Forgery, forged, lines_of, remade
from tests.tampering.kinds.kind import Change, Files, Kind, both

Field = Callable[[Forgery], object]
WORDS = {
    "bytes": "",
    "record": ", with its own digest",
    "entry": ", with the digests of its entry",
    "trace": ", with all digests of its trace",
    "commits": ", with all commits behind it",
    "seal": ", with everything up to the seal",
}


def field(kind: str, number: int = 0, /, **changes: Any) -> Field:
    return lambda forgery: forgery.records(kind)[number].update(changes)


def meta(kind: str, number: int = 0, /, **changes: Any) -> Field:
    return lambda forgery: forgery.records(kind)[number]["meta"].update(changes)


def another_key(forgery: Forgery) -> None:
    """The key that the tool was sent, in call, entry and effect alike."""
    old = forgery.records("tool_call")[0]["idempotency_key"]
    forgery.new[old] = "s:" + "a" * 64
    for line in forgery.lines:
        for part in (line.get("entry", {}), line.get("artifact", {})):
            if part.get("idempotency_key") == old:
                part["idempotency_key"] = "s:" + "a" * 64


def another_answer(forgery: Forgery) -> None:
    """What the mail server said: in the answer of the last step, and in its attempt."""
    output = forgery.records("tool_effect")[-1]["document_hashes"][0]["hash"]
    forgery.change_value(output, {"queued": False})


def another_argument(forgery: Forgery) -> None:
    commitment = forgery.records("action_request")[-1]["proposal"]["args"]["$commit"]
    forgery.change_value(commitment, {**forgery.value(commitment), "to": "somebody@example.com"})


FIELDS: dict[str, tuple[str, Field, bool]] = {
    "the version in the run record": ("plan", field("run", reenact_version="9.9.9"), False),
    "the target of a request": ("plan", field("action_request", resources=[{"kind": "service", "id": "x"}]), True),
    "what a decision reserved": ("plan", meta("supervisor_decision", required_exact="5"), True),
    "the idempotency key of a call": ("plan", another_key, True),
    "the request id of an attempt": ("plan", field("attempt", 1, request_id="r-8"), False),
    "the cost of an attempt": ("plan", field("attempt", 2, cost_exact="1"), False),
    "the retries of an effect": ("plan", meta("tool_effect", retries=7), True),
    "the time of an event": ("session", field("event", ts="2026-01-01T00:00:00.000Z"), False),
    "who voted": ("session", field("vote", who="mallory@example.com"), False),
    "what was voted": ("session", field("vote", decision="DENY"), False),
    "the time of a checkpoint": ("session", field("checkpoint", ts="2026-01-01T00:00:00.001Z"), False),
    "what a run checkpoint says was spent": ("plan", field("run_checkpoint", spent_exact="1"), False),
    "the time of a run checkpoint": ("plan", field("run_checkpoint", ts="2026-01-01T00:00:00.001Z"), False),
    "the time of the seal": ("plan", field("seal", sealed_at="2026-01-01T00:00:00.001Z"), False),
    "the status in the seal": ("plan", field("seal", status="failed"), False),
    "the seal before it in the store": ("plan", field("seal", prev_store_seal="a" * 64), False),
}
VALUES: dict[str, tuple[str, Field]] = {
    "an answer that the world gave": ("plan", another_answer),
    "an argument that was approved": ("plan", another_argument),
    "an answer in a packed bundle": ("packed", another_answer),
}


# -- the note about the seal -------------------------------------------------------------------------------------------


def noted(how: str) -> Change:
    """Somebody without the key, before the note about a seal that is another now."""

    def changed(files: Files) -> Files:
        digest = lines_of(files["seal.json"])[0]["seal_digest"]
        notes = lines_of(files["notes.jsonl"])
        about = next(number for number, each in enumerate(notes) if each["schema"] == "reenact.seal.v1")
        made = dict(files)
        if how == "taken away":
            notes = [each for each in notes if each["schema"] not in ("reenact.seal.v1", "reenact.erasures.v1")]
            del made["seal.note"]
        elif how == "moved to it":
            notes[about]["digest"] = digest
            del made["seal.note"]
        else:
            notes[about] = note(STRANGER, "reenact.seal.v1", digest)
            made["seal.note"] = signed_note(STRANGER, "reenact.seal.v1", digest)
            if how == "signed in the store's name by another key":
                notes[about]["kid"] = kid_of(STORE)
                del made["seal.note"]
            elif how == "signed by another key that is added":
                keys = {**lines_of(files["keys.json"])[0], kid_of(STRANGER): b64(public_bytes(STRANGER))}
                made["keys.json"] = canonicalize(keys) + b"\n"
        return remade({**made, "notes.jsonl": note_lines(notes)})

    return changed


NOTES = (
    "taken away",
    "moved to it",
    "signed by another key",
    "signed by another key that is added",
    "signed in the store's name by another key",
)


# -- whoever has a key -------------------------------------------------------------------------------------------------


def with_old_proof(change: Change) -> Change:
    """He leaves the proof as it was, since nobody else would sign another one."""
    return lambda files: remade({**change(files), PROOF: files[PROOF]})


def with_old_cosignature(change: Change) -> Change:
    """He moves the witness's word for the old head below the new one."""

    def moved(files: Files) -> Files:
        made = change(files)
        word = files[PROOF].splitlines(keepends=True)[-1]
        return remade({**made, PROOF: made[PROOF] + word})

    return moved


def with_own_witness(change: Change) -> Change:
    """A witness of his own signs in the name of the one that is trusted."""

    def moved(files: Files) -> Files:
        made = change(files)
        text = made[PROOF].partition(b"\n\n")[2].partition(b"\n\n")[0] + b"\n"
        word = cosignature(text, STRANGER)
        named = cosignature(text, WITNESS)
        key_id = named.split(b" ")[2][:5]
        return remade({**made, PROOF: made[PROOF] + word.replace(word.split(b" ")[2][:5], key_id)})

    return moved


def kinds() -> Iterator[Kind]:
    for name, (of, change, is_artifact) in FIELDS.items():
        for up_to in UP_TO:
            if up_to == "entry" and not is_artifact:
                continue
            yield Kind(f"{name}{WORDS[up_to]}", of, _forged(change, up_to))
    changes = {name: (of, change) for name, (of, change, _) in FIELDS.items()} | VALUES
    for name, (of, change) in VALUES.items():
        yield Kind(f"{name}, with everything up to the seal", of, _forged(change, "seal"))
    for name in ("an answer that the world gave", "the request id of an attempt", "who voted"):
        of, change = changes[name]
        for how in NOTES:
            yield Kind(f"{name}, and the note about the seal {how}", of, both(_forged(change, "seal"), noted(how)))
    for name in (*VALUES, "the version in the run record", "who voted"):
        of, change = changes[name]
        stranger, owner = _forged(change, "seal", STRANGER), _forged(change, "seal", STORE)
        yield Kind(f"{name}, and all of it signed by a stranger: who knows the store's key", of, stranger, "keys")
        yield Kind(f"{name}, and all of it signed by a stranger: who kept a checkpoint", of, stranger, "checkpoint")
        yield Kind(f"{name}, and all of it signed by the owner: who kept a checkpoint", of, owner, "checkpoint")
        yield Kind(f"{name}, and all of it signed by the owner: who knows a witness", of, owner, "witness")
        yield Kind(f"{name}, signed by the owner, the proof as it was", of, with_old_proof(owner))
        yield Kind(
            f"{name}, signed by the owner, with the witness's old word", of, with_old_cosignature(owner), "witness"
        )
        yield Kind(f"{name}, signed by the owner, with a witness of his own", of, with_own_witness(owner), "witness")


def _forged(change: Field, up_to: str, key: Any = None) -> Change:
    return lambda files: forged(files, change, up_to, key)
