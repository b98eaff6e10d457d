"""What the log asks of a store's engine. What is read may be anything that somebody put there: DamagedRecord then."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from reenact.store.keys.notes import Note
from reenact.verify.log.merkle import Node


class SealRow(NamedTuple):
    """A seal in the store's order, from 1 on, with the commit that it ends."""

    number: int
    run_no: int
    run_id: str
    seal_digest: str
    n: int
    body: bytes
    mac: object


class SignedHead(NamedTuple):
    """A checkpoint as it is kept: its text follows from the store's id, its key from the kid."""

    size: int
    root: bytes
    kid: str
    signature: bytes


class Peer(NamedTuple):
    """A witness, by his verifier key, or an anchor, by its place; and how it went with him the last time."""

    name: str
    kind: str
    """`witness` or `anchor`"""
    url: str
    seen: int = 0
    """The largest size that he is known to have."""
    failures: int = 0
    next_ms: int = 0
    """Not to be asked before."""
    trouble: str | None = None


class LogRows(Protocol):
    """The rows of one log. `grow` and what begins with `add` or `put` writes, and is refused where nothing may."""

    def size(self) -> int:
        """How many leaves the tree has; there may be more seals."""

    def nodes(self, wanted: Collection[Node]) -> dict[Node, bytes]: ...
    def seals(self, after: int, limit: int) -> list[SealRow]: ...
    def digests(self, after: int, limit: int) -> list[tuple[int, str]]:
        """(number, digest) of seals, as their own table has them."""

    def seal_count(self) -> int: ...
    def seal_digest(self, number: int) -> str | None: ...
    def number_of(self, run_no: int) -> int | None:
        """The number of a run's seal."""

    def newest(self) -> SignedHead | None: ...
    def checkpoint(self, size: int) -> SignedHead | None: ...
    def covering(self, size: int) -> SignedHead | None:
        """The smallest checkpoint of at least this size."""

    def checkpoints(self) -> Iterator[SignedHead]: ...
    def cosigned(self, size: int) -> list[tuple[int, int]]:
        """(size, how many cosigned it) of the next checkpoints of at least this size that somebody did."""

    def stamped(self, size: int) -> int | None:
        """The smallest checkpoint of at least this size that an authority stamped."""

    def cosignatures(self, size: int) -> list[bytes]:
        """Lines of a signed note, in the order of their coming."""

    def timestamps(self, size: int) -> list[tuple[str, bytes]]: ...
    def contradictions(self) -> list[tuple[str, bytes]]:
        """(who holds it, a checkpoint that is none of this log)"""

    def peers(self, kind: str) -> list[Peer]: ...
    def peer(self, name: str) -> Peer | None: ...
    def notes_about(self, schema: str, digest: str) -> list[Note]: ...

    def grow(self, size: int, nodes: Collection[tuple[Node, bytes]], head: SignedHead | None) -> bool:
        """Nodes of a tree that has `size` leaves, and its signed head; False where somebody else was faster."""

    def forget_nodes(self) -> None: ...
    def add_cosignature(self, size: int, witness: str, line: bytes) -> None: ...
    def add_timestamp(self, size: int, place: str, stamp: bytes) -> None: ...
    def add_contradiction(self, source: str, note: bytes) -> None: ...
    def put_peer(self, peer: Peer, note: Note | None = None) -> None:
        """With the note that names it, where that is to be written too."""

    def drop_peer(self, name: str) -> bool: ...
