"""Whole files: taken away, emptied, cut, grown, replaced by garbage or by those of another run; with and without a
manifest that fits again."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tampering.evidence import PROOF, whole
from tests.tampering.forging import remade
from tests.tampering.kinds.kind import Change, Files, Kind, both, drop, edit, put

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
    yield Kind("a file that nobody names", "plan", put("letter.txt", b"hello"))
    yield Kind("a file that nobody may name, and the manifest does", "plan", both(put("letter.txt", b"x"), remade))
    yield Kind("a folder that nobody names", "plan", put("more/letter.txt", b"hello"))
    yield Kind("every file but the manifest taken away", "plan", lambda files: _only(files, "manifest.json"))
    yield Kind("every file taken away", "plan", lambda files: {})
    yield Kind("every file but the journal taken away", "plan", lambda files: _only(files, "journal.jsonl"))
    yield Kind("every copy taken away", "plan", both(drop(*OF_COPIES), remade))


OF_COPIES = ("plan.json", "seal.json", "seal.note", "REPLAY.jsonl", "RECEIPT.json")


def _only(files: Files, name: str) -> Files:
    return {name: files[name]}
