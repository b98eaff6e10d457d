"""Whole files: taken away, emptied, cut, grown, replaced by garbage or by those of another run; with and without a
manifest that fits again."""

from __future__ import annotations

from collections.abc import Iterator

from tools.vectors.scenarios import FETCH
from tools.vectors.writer import Run

from reenact.values.envelope import LARGEST_ENVELOPE
from reenact.verify.files.packed import MAX_LINES_BYTES
from reenact.verify.lines import MAX_LINE_BYTES
from tests.tampering.evidence import PROOF, whole
from tests.tampering.forging import Forgery, remade
from tests.tampering.kinds.contradictions import made
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, edit, put
from tests.tampering.kinds.signed import signed
from tests.verify.test_contradictions import new_run, one_step

OF = {
    "journal.jsonl": "plan",
    "seal.json": "plan",
    "seal.note": "plan",
    "notes.jsonl": "plan",
    "keys.json": "plan",
    "plan.json": "plan",
    "REPLAY.jsonl": "plan",
    "RECEIPT.json": "plan",
    PROOF: "plan",
    "erasures.jsonl": "session",
    "payloads.jsonl.gz": "packed",
}


def flipped(data: bytes) -> bytes:
    """A bit in the middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


CHANGES = {
    "emptied": lambda data: b"",
    "with a flipped bit": flipped,
    "cut in the middle": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "with a line more": lambda data: data + b"{}\n",
    "with its first line twice": lambda data: data.splitlines(keepends=True)[0] + data,
    "replaced by garbage": lambda data: b"\x00\xff garbage",
    "with Windows line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "with a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
}


def of_another_run(name: str, of: str) -> Change:
    other = whole({"plan": "refusals", "session": "plan", "packed": "plan"}[of])
    return put(name, other.get(name, b"\n"))


def kinds() -> Iterator[Kind]:
    for name, of in OF.items():
        yield Kind(f"{name} taken away, the manifest as it was", of, drop(name))
        yield Kind(f"{name} taken away", of, both(drop(name), remade))
        yield Kind(f"{name} with a flipped bit, the manifest as it was", of, edit(name, flipped))
        for how, change in CHANGES.items():
            if not (name.endswith(".gz") and "line" in how and "ends" not in how):
                yield Kind(f"{name} {how}", of, both(edit(name, change), remade))
        if name not in ("erasures.jsonl", "payloads.jsonl.gz", "keys.json"):
            yield Kind(f"{name} of another run", of, both(of_another_run(name, of), remade))
    yield Kind("a file beyond the limit, signed", "plan without views", signed(too_large), in_folder=True)
    yield made("lines beyond the limit, signed", too_long)
    yield Kind("packed payloads beyond the limit, signed", "packed", signed(two_large), is_large=True)
    yield Kind("a packed payload beyond the limit, signed", "packed", signed(too_large), is_large=True)
    yield Kind("a file that nobody names", "plan", put("letter.txt", b"hello"))
    yield Kind("a file that nobody may name, and the manifest does", "plan", both(put("letter.txt", b"x"), remade))
    yield Kind("a folder that nobody names", "plan", put("more/letter.txt", b"hello"))
    yield Kind("every file but the manifest taken away", "plan", lambda files: _only(files, "manifest.json"))
    yield Kind("every file taken away", "plan", lambda files: {})
    yield Kind("every file but the journal taken away", "plan", lambda files: _only(files, "journal.jsonl"))
    yield Kind("every copy taken away", "plan", both(drop(*OF_COPIES), remade))


def too_large(forgery: Forgery) -> None:
    """What the last call returned; its bytes are that many, and an envelope has a salt and quotes more."""
    output = forgery.records("tool_effect")[-1]["document_hashes"][0]["hash"]
    forgery.change_value(output, "x" * LARGEST_ENVELOPE)


def two_large(forgery: Forgery) -> None:
    """Two values, each small enough, that come to more than a file of packed payloads may hold."""
    for number in (0, -1):
        output = forgery.records("tool_effect")[number]["document_hashes"][0]["hash"]
        forgery.change_value(output, {**forgery.value(output), "more": "x" * (MAX_LINES_BYTES * 3 // 8)})


def too_long() -> Run:
    """A request and a call with an argument that all may read, and that is large."""
    step = {**FETCH, "parameters": {"method": "GET", "url": "x" * MAX_LINE_BYTES}}
    return one_step(run=new_run(step), request={"public": ["method", "url"]})


OF_COPIES = ("plan.json", "seal.json", "seal.note", "REPLAY.jsonl", "RECEIPT.json")


def _only(files: Files, name: str) -> Files:
    return {name: files[name]}
