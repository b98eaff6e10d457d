"""Checkpoints: the signed head of a log, as C2SP `tlog-checkpoint` writes it, and the cosignatures below it."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord
from reenact.verify.log.merkle import EMPTY, HASH_BYTES
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
    return ORIGIN + store_id


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
    if size == 0 and root != EMPTY:
        raise DamagedRecord("a checkpoint of size 0 has the root of the empty tree")
    return Checkpoint(Head(lines[0], size, root), note)


def read_checkpoints(data: bytes) -> list[Checkpoint]:
    """Those of a file to which one was added after the other."""
    found, lines, is_signed = [], b"", False
    for line in data.splitlines(keepends=True):
        is_signature_line = line.startswith("\u2014 ".encode())
        if is_signed and not is_signature_line:
            found.append(read_checkpoint(lines))
            lines = b""
        is_signed = is_signature_line
        if line.strip() or lines:
            lines += line
    return [*found, read_checkpoint(lines)] if lines or not found else found


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
