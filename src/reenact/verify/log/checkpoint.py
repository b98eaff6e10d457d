"""Checkpoints: the signed head of a log, as C2SP `tlog-checkpoint` writes it, and the cosignatures below it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord
from reenact.verify.log.merkle import HASH_BYTES
from reenact.verify.signed.signed_note import (
    COSIGNATURE,
    NoteSignature,
    SignedNote,
    VerifierKey,
    from_base64,
    is_signature,
    read_note,
)

LARGEST: Final = (1 << 63) - 1
NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})", re.ASCII)
MAX_CHECKPOINT_BYTES: Final = 1 << 16
ORIGIN: Final = "reenact/"


class Head(NamedTuple):
    """What a checkpoint says: the log, how many leaves, and the root over them."""

    origin: str
    size: int
    root: bytes

    def text(self) -> bytes:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n".encode()

    def __str__(self) -> str:
        return f"size {self.size}, root {self.root.hex()}"


class Checkpoint(NamedTuple):
    head: Head
    note: SignedNote


def origin_of(store_id: str) -> str:
    return ORIGIN + store_id.encode("utf-8", "replace").decode()  # a damaged cell may be no text


def read_number(text: str) -> int | None:
    """A decimal number as the formats write it: no sign, no leading zero, at most 63 bits."""
    number = int(text) if NUMBER.fullmatch(text) else LARGEST + 1
    return number if number <= LARGEST else None


def read_checkpoint(data: bytes) -> Checkpoint:
    """A checkpoint of which no signature is checked; DamagedRecord where the bytes are none."""
    if len(data) > MAX_CHECKPOINT_BYTES:
        raise DamagedRecord(f"a checkpoint has at most {MAX_CHECKPOINT_BYTES} bytes")
    note = read_note(data)
    lines = note.text.decode()[:-1].split("\n")
    if len(lines) < 3 or not all(lines):
        raise DamagedRecord("a checkpoint is an origin, a size and a root, each on a line of its own")
    size, root = read_number(lines[1]), from_base64(lines[2])
    if size is None or root is None or len(root) != HASH_BYTES:
        raise DamagedRecord("the second line of a checkpoint is its size in decimal, the third its root in base64")
    return Checkpoint(Head(lines[0], size, root), note)


_SIGNATURE: Final = "\u2014 ".encode()


def split_notes(data: bytes) -> list[bytes]:
    """The signed notes of a file to which one was added after the other; together they are the file."""
    starts, at, is_below, after_blank = [0], 0, False, False
    for line in data.splitlines(keepends=True):
        is_signed = line.startswith(_SIGNATURE) and (is_below or after_blank)
        if is_below and not is_signed:
            starts.append(at)
        is_below, after_blank = is_signed, line == b"\n"
        at += len(line)
    return [data[begin:end] for begin, end in zip(starts, [*starts[1:], at], strict=True) if begin < end]


def is_whole(note: bytes) -> bool:
    """Whether it was written to its end: below the text there is a signature, on a line that ends."""
    return note.endswith(b"\n") and note.rpartition(b"\n\n")[2].startswith(_SIGNATURE)


def read_checkpoints(data: bytes) -> list[Checkpoint]:
    """Those of a file to which one was added after the other; one at its end that a crash tore is left out."""
    notes = split_notes(data)
    if len(notes) > 1 and not is_whole(notes[-1]):
        notes.pop()
    return [read_checkpoint(note) for note in notes or [data]]


def of_log(kept: Iterable[Checkpoint], origin: str | None) -> tuple[list[Checkpoint], int]:
    """(those of this log, how many are of others). Whoever keeps heads of several logs keeps them in one file; heads of
    others say something about this log only where there is none of it: then it is not the log whose head was kept."""
    every = list(kept)
    mine = [each for each in every if origin in (None, each.head.origin)]
    return (mine, len(every) - len(mine)) if mine else (every, 0)


class Cosigned(NamedTuple):
    """A witness's word for a checkpoint, and when he gave it, in seconds since 1970."""

    witness: VerifierKey
    time: int


def cosigned_text(time: int, text: bytes) -> bytes:
    """What a witness signs."""
    return b"cosignature/v1\ntime %d\n" % time + text


def cosigned_by(note: SignedNote, witness: VerifierKey) -> Cosigned | bool:
    """His cosignature; False where there is none of his, True where there is one that is not what he signed."""
    found: Cosigned | bool = False
    for line in note.signatures:
        if witness.kind != COSIGNATURE or (line.name, line.key_id) != (witness.name, witness.key_id):
            continue
        time = cosignature_time(line)
        if time is None or not is_signature(witness.public_key, line.signature[8:], cosigned_text(time, note.text)):
            return True
        if not isinstance(found, Cosigned) or time < found.time:
            found = Cosigned(witness, time)
    return found


def cosignature_time(line: NoteSignature) -> int | None:
    if len(line.signature) != 8 + 64:
        return None
    time = int.from_bytes(line.signature[:8], "big")
    return time if 0 < time <= LARGEST else None
