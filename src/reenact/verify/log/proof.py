"""A `.tlog-proof` (C2SP `tlog-proof`): a leaf's place in the log, its path to the root, and the signed checkpoint."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

from reenact.errors import DamagedRecord
from reenact.verify.log.checkpoint import MAX_CHECKPOINT_BYTES, Checkpoint, read_checkpoint, read_number
from reenact.verify.log.merkle import HASH_BYTES, MAX_PROOF, leaf_hash, root_from
from reenact.verify.signed.signed_note import from_base64

FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
MAX_PROOF_BYTES: Final = 2 * MAX_CHECKPOINT_BYTES


class Proof(NamedTuple):
    place: int
    """Of the leaf in the log, from 0 on."""
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    raw: bytes
    """The checkpoint as it was signed."""

    def root_of(self, leaf: bytes) -> bytes | None:
        """The root that the leaf and its path come to."""
        return root_from(leaf_hash(leaf), self.place, self.checkpoint.head.size, self.path)


def write_proof(index: int, path: Sequence[bytes], checkpoint: bytes) -> bytes:
    lines = [FIRST_LINE, f"index {index}", *(b64encode(each).decode() for each in path), ""]
    return "".join(f"{line}\n" for line in lines).encode() + checkpoint


def read_proof(data: bytes) -> Proof:
    """A proof of which nothing is checked; DamagedRecord where the bytes are none."""
    if len(data) > MAX_PROOF_BYTES:
        raise DamagedRecord(f"a proof has at most {MAX_PROOF_BYTES} bytes")
    above, blank, raw = data.partition(b"\n\n")
    try:
        first, *lines = above.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise DamagedRecord("what stands above the checkpoint of a proof is ASCII") from None
    if first != FIRST_LINE or not blank:
        raise DamagedRecord(f"a proof begins with {FIRST_LINE}, and its checkpoint follows an empty line")
    if lines and lines[0].startswith("extra ") and from_base64(lines.pop(0).removeprefix("extra ")) is None:
        raise DamagedRecord("the extra data of a proof is base64")
    index = read_number(lines[0].removeprefix("index ")) if lines and lines[0].startswith("index ") else None
    if index is None:
        raise DamagedRecord("a proof has the line `index N` before its hashes")
    checkpoint = read_checkpoint(raw)
    if index >= checkpoint.head.size:
        raise DamagedRecord(f"leaf {index} is none of a log of size {checkpoint.head.size}")
    return Proof(index, read_hashes(lines[1:]), checkpoint, raw)


def read_hashes(lines: Sequence[str]) -> tuple[bytes, ...]:
    """One in base64 a line, as proofs of both kinds have them."""
    if len(lines) > MAX_PROOF:
        raise DamagedRecord(f"a proof has at most {MAX_PROOF} hashes")
    found = [from_base64(line) for line in lines]
    hashes = tuple(each for each in found if each is not None and len(each) == HASH_BYTES)
    if len(hashes) != len(lines):
        raise DamagedRecord("each line of a proof is one SHA-256 in base64")
    return hashes
