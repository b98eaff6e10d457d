"""The log of a store: its tree grows with the seals, its heads are signed, and proofs are made from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reenact.contracts.records import Seal
from reenact.errors import DamagedRecord, NotAuthentic, UsageError
from reenact.store.keys.notes import is_signed_note, sign_note
from reenact.store.log.rows import LogRows, Peer, SealRow, SignedHead
from reenact.store.naming import part, read_lines
from reenact.store.signing import SigningKey
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, sha256_hex
from reenact.verify.capability import from_base64url
from reenact.verify.log.checkpoint import Head, origin_of
from reenact.verify.log.merkle import (
    Node,
    complete,
    consistency_nodes,
    inclusion_nodes,
    joined,
    leaf_hash,
    node_hash,
)
from reenact.verify.log.proof import write_proof
from reenact.verify.signed.signed_note import ED25519, VerifierKey, signature_line

BATCH = 512
"""Seals that become leaves in one transaction."""
MOST_HEARD = 4096


PEER = "reenact.log_peer.v1"


def digest_of(peer: Peer) -> str:
    """Of what is signed about a witness or an anchor."""
    return sha256_hex(canonicalize({"schema": PEER, "kind": peer.kind, "name": peer.name, "url": peer.url}))


class Growth(NamedTuple):
    """What a batch of seals adds to the tree: its size then, the nodes, and those that its root is joined of."""

    size: int
    nodes: list[tuple[Node, bytes]]
    edge: list[bytes]
    last: str
    """The digest of the last seal in it."""
    is_all: bool
    newest: SignedHead | None
    """What was signed last, before it."""
    known: Mapping[Node, bytes] = {}
    """Nodes of before."""


class Own(NamedTuple):
    """The head that this process signed last."""

    head: SignedHead
    edge: list[bytes]
    last: str


class ReadLog:
    """A log as far as it goes without writing: proofs, and what is on record."""

    def __init__(self, rows: LogRows, store_id: str, keys: Callable[[], dict[str, str]]) -> None:
        self.rows = rows
        self.origin = origin_of(store_id)
        self._keys = keys

    def vkey(self, kid: str) -> VerifierKey:
        """The key of a checkpoint as others name it."""
        text = self._keys().get(kid)
        if text is None:
            raise DamagedRecord(f"a checkpoint names key {kid}, and no such key is on record; see `reenact verify`")
        raw = from_base64url(text)
        if raw is None or len(raw) != 32:
            raise DamagedRecord(f"key {kid} is not 32 bytes in base64url; see `reenact verify`")
        return VerifierKey(self.origin, ED25519, raw)

    def vkeys(self) -> list[VerifierKey]:
        """Every key that may have signed a checkpoint of this log."""
        return [self.vkey(kid) for kid in self._keys()]

    def head(self, kept: SignedHead) -> Head:
        return Head(self.origin, kept.size, kept.root)

    def note(self, kept: SignedHead, *, cosigned: bool = True) -> bytes:
        """A checkpoint as a signed note, with what witnesses said of it."""
        key = self.vkey(kept.kid)
        lines = self.rows.cosignatures(kept.size) if cosigned else []
        own = signature_line(key.name, key.key_id, kept.signature)
        return self.head(kept).text() + b"\n" + own + b"".join(lines)

    # -- proofs ----------------------------------------------------------------------------------------------------

    def root_at(self, size: int) -> bytes:
        """The root over the first leaves, as the kept nodes have it."""
        return self._hashes([complete(0, size)])[0]

    def path(self, index: int, size: int) -> list[bytes]:
        return self._hashes(inclusion_nodes(index, size))

    def consistency(self, old: int, size: int) -> list[bytes]:
        return self._hashes(consistency_nodes(old, size))

    def _hashes(self, groups: Sequence[Sequence[Node]]) -> list[bytes]:
        nodes = self.rows.nodes([node for group in groups for node in group])
        return [joined([nodes[node] for node in group]) for group in groups]

    def proof(self, index: int, size: int | None = None) -> bytes | None:
        """That a leaf is in the log: in that of `size`, else where most witnesses saw it first; None where none is."""
        kept = self.covering(index) if size is None else self.rows.checkpoint(size)
        if kept is None or kept.size <= index:
            return None
        return write_proof(index, self.path(index, kept.size), self.note(kept))

    def covering(self, index: int) -> SignedHead | None:
        """The smallest checkpoint that has the leaf; of those that somebody outside saw, what most of them saw."""
        seen = self.rows.cosigned(index + 1)
        size = max(seen, key=lambda each: (each[1], -each[0]))[0] if seen else self.rows.stamped(index + 1)
        return self.rows.covering(index + 1) if size is None else self.rows.checkpoint(size)

    def check_leaf(self, index: int) -> None:
        """NotAuthentic where the seal is not what the log has as its leaf."""
        before = self.rows.seal_digest(index) if index else ZERO_DIGEST
        for row in self.rows.seals(index, 1):
            leaf = read_leaf(row)
            refuse_gap(leaf, index + 1, before)
            refuse_other_leaf(leaf, self.rows.nodes([(0, index)])[0, index])

    # -- from the seals alone --------------------------------------------------------------------------------------

    def leaves(self, up_to: int | None = None, *, after: int = 0) -> Iterator[bytes]:
        """The hashes of the leaves, from the records of the seals, in order; no node is believed.

        Those `after` the first ones, if that is said.
        """
        number, before = after, (self.rows.seal_digest(after) if after else ZERO_DIGEST)
        while up_to is None or number < up_to:
            limit = BATCH if up_to is None else min(BATCH, up_to - number)
            rows = self.rows.seals(number, limit)
            for row in rows:
                leaf, before = leaf_of(row, number + 1, before)
                number += 1
                yield leaf_hash(leaf)
            if len(rows) < limit:
                return


class Log(ReadLog):
    """`check` raises where nobody vouches for the commit that a seal ends; `believed` are the keys that may vouch."""

    def __init__(
        self,
        rows: LogRows,
        store_id: str,
        keys: Callable[[], dict[str, str]],
        key: Callable[[], SigningKey],
        check: Callable[[SealRow], None],
        believed: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(rows, store_id, keys)
        self._store_id = store_id
        self._believed = believed
        self._key = key
        self._check = check
        self._lock = threading.Lock()
        self._heard: dict[str, Seal] = {}
        self._own: Own | None = None

    # -- who is asked ----------------------------------------------------------------------------------------------

    def ask(self, peer: Peer) -> None:
        """From here on: signed, since whoever asks does what a row says, in a repository of git runs its commands."""
        self.rows.put_peer(peer, sign_note(self._key(), PEER, self._store_id, digest_of(peer)))

    def refuse_unnamed(self, peer: Peer) -> None:
        """NotAuthentic where no key of the store has signed that this one is asked."""
        named = self.rows.notes_about(PEER, digest_of(peer))
        if not any(note.store_id == self._store_id and is_signed_note(self._believed(), note) for note in named):
            raise NotAuthentic(
                f"nobody vouches for {peer.url}, and it is not asked: somebody put it into the database, or an "
                f"earlier release did; if it is yours, say `reenact log {peer.kind} add` again, else `remove`"
            )

    # -- heads -----------------------------------------------------------------------------------------------------

    def advance(self, told: Callable[[int], object] = lambda _: None) -> SignedHead | None:
        """Every seal a leaf, and the head signed; what there was, where nothing is new. None of a log without leaves.

        What is signed is shown to nobody before it is durable, and for a size there is one head: two that try at once
        find the same one, and the second sees that.
        """
        key = self._key()
        with self._lock:
            while True:
                size = self.rows.size()
                growth = self._own_growth(size) or self._growth(size)
                told(growth.size)
                newest = growth.newest
                if newest is not None:
                    self._refuse_contradicted(newest, growth)
                signed = None
                if growth.is_all and growth.size and (newest is None or newest.size < growth.size):
                    head = Head(self.origin, growth.size, joined(growth.edge))
                    signed = SignedHead(head.size, head.root, key.kid, key.sign(head.text()))
                if not growth.nodes and signed is None:
                    return newest
                if self.rows.grow(size, growth.nodes, signed) and signed is not None:
                    self._own = Own(signed, growth.edge, growth.last)
                    return signed

    def hear(self, seal: Seal) -> None:
        """A seal that this process has just written: what it knows itself it need not read, and trust, again."""
        if len(self._heard) >= MOST_HEARD:
            self._heard.clear()
        self._heard[str(seal.seal_digest)] = seal

    def _own_growth(self, size: int) -> Growth | None:
        """What follows the head that this process signed last, where it wrote all of that too: none of it is read."""
        own = self._own
        seals = self._known(size, BATCH) if own is not None and own.head.size == size else []
        if own is None or not seals:
            return None
        return grown(Edge(size, own.edge), own.last, seals, is_all=len(seals) < BATCH, newest=own.head)

    def _growth(self, size: int) -> Growth:
        wanted, newest = complete(0, size), self.rows.newest()
        known = self.rows.nodes({*wanted, (0, size - 1)} if size else ())
        edge = Edge(size, [known[node] for node in wanted])
        skip = 1 if size else 0  # with the last one that is a leaf
        seals = self._known(size - skip, BATCH + skip) or self._read(size, skip)
        last = self._last(size, seals[:1], known[0, size - 1]) if size else ZERO_DIGEST
        is_all = len(seals) < BATCH + skip
        return grown(edge, last, seals[skip:], is_all=is_all, newest=newest)._replace(known=known)

    def _known(self, after: int, limit: int) -> list[Leaf]:
        """The next seals, where this process wrote all of them; of the store only their order is read."""
        found = []
        for number, digest in self.rows.digests(after, limit):
            seal = self._heard.get(digest)
            if seal is None:
                return []
            found.append(Leaf(number, seal.run_id, canonicalize(seal), digest, seal.prev_store_seal))
        return found

    def _read(self, size: int, skip: int) -> list[Leaf]:
        rows = self.rows.seals(size - skip, BATCH + skip)
        for row in rows[skip:]:
            self._check(row)
        return [read_leaf(row) for row in rows]

    def _last(self, size: int, seals: list[Leaf], node: bytes) -> str:
        """The digest of the last seal that is a leaf, provided that it is the one that the log has."""
        if not seals or seals[0].number != size:
            raise cut(size, self.rows.seal_count())
        refuse_other_leaf(seals[0], node)
        return seals[0].digest

    def _refuse_contradicted(self, newest: SignedHead, growth: Growth) -> None:
        """Nothing is signed that does not go on from what was signed last."""
        if growth.size < newest.size:
            if growth.is_all:
                raise cut(newest.size, growth.size)
            return
        if self._own is not None and self._own.head is newest:
            return  # its edge is what has grown
        known, wanted = {**growth.known, **dict(growth.nodes)}, complete(0, newest.size)
        missing = [node for node in wanted if node not in known]
        if missing:
            known |= self.rows.nodes(missing)
        self._refuse_other(newest, joined([known[node] for node in wanted]))

    @staticmethod
    def _refuse_other(kept: SignedHead, root: bytes) -> None:
        if kept.root != root:
            raise NotAuthentic(
                f"the seals come to another head than the one that was signed for size {kept.size}: signed "
                f"{kept.root.hex()}, got {root.hex()}; nothing more is signed. See `reenact verify`"
            )


class Edge:
    """The right edge of a growing tree: one hash per complete subtree, and what came to be complete."""

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        self.size = size
        self.hashes = list(hashes)
        self.added: list[tuple[Node, bytes]] = []

    def append(self, leaf: bytes) -> None:
        level, index, node = 0, self.size, leaf
        self.added.append(((level, index), node))
        while index & 1:
            node = node_hash(self.hashes.pop(), node)
            level, index = level + 1, index >> 1
            self.added.append(((level, index), node))
        self.hashes.append(node)
        self.size += 1


def grown(edge: Edge, last: str, seals: Sequence[Leaf], *, is_all: bool, newest: SignedHead | None) -> Growth:
    """The tree with these seals behind the one that has the digest `last`."""
    for seal in seals:
        refuse_gap(seal, edge.size + 1, last)
        last = seal.digest
        edge.append(leaf_hash(seal.content))
    return Growth(edge.size, edge.added, edge.hashes, last, is_all, newest)


class Leaf(NamedTuple):
    """A seal in the order of the store, from 1 on: its canonical bytes, and the digest that it says it follows."""

    number: int
    run_id: str
    content: bytes
    digest: str
    follows: object


def leaf_of(row: SealRow, number: int, before: str | None) -> tuple[bytes, str]:
    """(canonical bytes of the seal, its digest), provided that it is this one and follows the one before it."""
    leaf = read_leaf(row)
    refuse_gap(leaf, number, before)
    return leaf.content, leaf.digest


def read_leaf(row: SealRow) -> Leaf:
    seal = seal_in(row.body)
    if seal.get("seal_digest") != row.seal_digest or seal.get("run_id") != row.run_id:
        raise NotAuthentic(
            f"seal {row.number} of the store is not the one that run {row.run_id} ends with; "
            f"see `reenact verify {row.run_id}`"
        )
    return Leaf(row.number, row.run_id, canonicalize(seal), row.seal_digest, seal.get("prev_store_seal"))


def refuse_gap(leaf: Leaf, number: int, before: str | None) -> None:
    where = f"seal {number} of the store"
    if leaf.number != number:
        raise NotAuthentic(f"{where} is missing: the log ends before it; see `reenact verify`")
    if leaf.follows != before:
        raise NotAuthentic(f"{where} does not follow the one before it; see `reenact verify {leaf.run_id}`")


def seal_in(body: bytes) -> Mapping[str, Any]:
    """The seal that a commit ends with; nothing where it ends with something else."""
    last = body.removesuffix(b"\n").rpartition(b"\n")[2]
    return next((part(line, "seal") for line in read_lines(last) if line.get("kind") == "seal"), {})


def refuse_other_leaf(leaf: Leaf, node: bytes) -> None:
    if node != leaf_hash(leaf.content):
        raise NotAuthentic(
            f"seal {leaf.number} of the store, of run {leaf.run_id}, is not the one that its log has: one of them "
            f"was changed since; nothing more is signed. See `reenact verify {leaf.run_id}`"
        )


def cut(signed: int, there: int) -> NotAuthentic:
    return NotAuthentic(
        f"a head was signed for {signed} seals, and {there} are there: runs were taken out, or the store is an older "
        "copy; nothing more is signed. See `reenact log consistency`"
    )


def index_of(rows: LogRows, run_no: int, run_id: str) -> int:
    """The leaf of a sealed run, from 0 on; UsageError for a run that has no seal."""
    number = rows.number_of(run_no)
    if number is None:
        raise UsageError(f"run {run_id} has no seal yet: what is in the log is sealed runs")
    return number - 1
