"""REPLAY.jsonl and RECEIPT.json: made again from the journal, and held against what lies in the bundle."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Final

from reenact.trace.from_journal import FromJournal, Line
from reenact.trace.receipt import ReceiptToolCall
from reenact.values.canonical import canonicalize, same_until
from reenact.values.envelope import Archived
from reenact.verify.lines import read_canonical
from reenact.verify.payloads import PayloadSource, Value, open_envelope
from reenact.verify.report import Problem, Where, shown

REPLAY: Final = "REPLAY.jsonl"
RECEIPT: Final = "RECEIPT.json"
NO_CALLS: Final = b'"tool_calls":[]'
"""It stands in no text of a receipt: quotes are escaped there."""
IN_MEMORY: Final = 8 << 20
PIECE: Final = 1 << 20


class Views:
    """Both, as the journal says, in the memory of one call. The lines are those of a journal that is whole.

    `archived` are the commitments whose last record says so.
    """

    def __init__(self, lines: Iterable[bytes], payloads: PayloadSource, archived: Container[str] = ()) -> None:
        self._lines = lines
        self._archived = archived
        self._payloads = payloads
        self._calls = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  # it goes with this object
        self._log = FromJournal(self._value, self._keep)
        self._hash = sha256()

    def replay(self) -> Iterator[bytes]:
        """The lines of REPLAY.jsonl, with their newlines."""
        for commit in commits(self._lines):
            for event in self._log.commit(commit):
                line = event.to_canonical_json().encode() + b"\n"
                self._hash.update(line)
                yield line

    def receipt(self) -> Iterator[bytes]:
        """RECEIPT.json in pieces, once the lines are through; nothing of a run that has none."""
        receipt = self._log.receipt(f"sha256:{self._hash.hexdigest()}")
        if receipt is None:
            return
        before, _, after = receipt.to_canonical_json().encode().partition(NO_CALLS)
        yield before + NO_CALLS[:-1]
        self._calls.seek(0)
        while piece := self._calls.read(PIECE):
            yield piece
        yield NO_CALLS[-1:] + after + b"\n"
        self._calls.close()

    def _keep(self, call: ReceiptToolCall) -> None:
        """The calls stand in the middle of the receipt, and what stands before them is known last."""
        self._calls.write((b"," if self._calls.tell() else b"") + canonicalize(call.members()))

    def _value(self, commitment: str) -> object:
        envelope = self._payloads.get(commitment)
        found = None if envelope is None else open_envelope(envelope, commitment)
        if isinstance(found, Value):
            return found.value
        raise Archived(commitment) if commitment in self._archived else LookupError(commitment)


def commits(lines: Iterable[bytes]) -> Iterator[list[Line]]:
    """The lines of a journal, commit by commit."""
    commit: list[Line] = []
    for raw in lines:
        read = read_canonical(raw.removesuffix(b"\n"), "a line")
        if isinstance(read, Problem):
            continue
        if read.value.get("kind") == "commit" and commit:
            yield commit
            commit = []
        commit.append(read.value)
    if commit:
        yield commit


def compare_replay(expected: Iterator[bytes], file: BinaryIO) -> tuple[Problem, Where] | None:
    """The first line in which the file is not what the journal says, and where it stands."""
    number = offset = 0
    for number, line in enumerate(expected, start=1):  # the last one is told
        got = file.read(len(line))
        if got != line:
            what = f"line {number} of {REPLAY} is not what the journal says" if got else f"{REPLAY} ends too early"
            return Problem("REPLAY_MISMATCH", what, *apart(line, got)), Where(file=REPLAY, line=number, offset=offset)
        offset += len(line)
    if file.read(1):
        problem = Problem("REPLAY_MISMATCH", f"{REPLAY} goes on after line {number}, the last that the journal says")
        return problem, Where(file=REPLAY, line=number + 1, offset=offset)
    return None


def apart(expected: bytes, got: bytes) -> tuple[str, str]:
    """Two lines from shortly before where they part."""
    same = next((at for at, (one, other) in enumerate(zip(expected, got, strict=False)) if one != other), len(got))
    begin = max(0, same - 20)
    left, right = (shown(each[begin : begin + 120].decode(errors="replace")) for each in (expected, got))
    return left, right


def compare_receipt(expected: Iterator[bytes], file: BinaryIO) -> Problem | None:
    """The first member in which a receipt is not what the journal says; of a large one, the first byte."""
    pieces, offset = b"", 0
    for piece in expected:
        got = file.read(len(piece))
        if got != piece:
            offset += same_until(piece, got)
            whole = pieces + piece + b"".join(expected) if offset < PIECE else b""
            return told_receipt(whole, pieces + got + file.read(PIECE), offset)
        pieces = pieces + piece if offset < PIECE else b""
        offset += len(piece)
    return Problem("RECEIPT_MISMATCH", f"{RECEIPT} goes on after its end") if file.read(1) else None


def told_receipt(expected: bytes, got: bytes, offset: int) -> Problem:
    mine, read = (read_canonical(data.removesuffix(b"\n"), RECEIPT) for data in (expected, got))
    if isinstance(mine, Problem) or isinstance(read, Problem) or not isinstance(read.value, dict):
        return Problem("RECEIPT_MISMATCH", f"{RECEIPT} is not what the journal says from its byte {offset} on")
    pointer, left, right = difference(mine.value, read.value)
    return Problem("RECEIPT_MISMATCH", f"{RECEIPT} is not what the journal says, at {pointer}", left, right)


def difference(expected: Any, got: Any, pointer: str = "") -> tuple[str, str, str]:
    """(JSON pointer, expected, got) of the first difference between two values."""
    if isinstance(expected, dict) and isinstance(got, dict):
        keys = sorted({*expected, *got})
        pairs = [(key, expected.get(key, MISSING), got.get(key, MISSING)) for key in keys]
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = [(str(n), one, other) for n, (one, other) in enumerate(zip(expected, got, strict=True))]
    else:
        return pointer or "/", told(expected), told(got)
    for key, one, other in pairs:
        if told(one) != told(other):
            return difference(one, other, f"{pointer}/{key}")
    return pointer or "/", "its canonical bytes", "other bytes"


MISSING: Final = object()


def told(value: object) -> str:
    return "nothing" if value is MISSING else canonicalize(value).decode()
