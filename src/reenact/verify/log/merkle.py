"""Proofs in the Merkle tree of RFC 6962: that a leaf is in a tree (2.1.1), that a tree goes on from another (2.1.2).

The same walk gives whoever has the tree the nodes that a proof is made of: each is a complete subtree, (level, index),
over the leaves from `index << level` on, or several of them joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
EMPTY: Final = sha256(b"").digest()
MAX_PROOF: Final = 63
"""Hashes in a proof: as many as a tree has levels."""

Node = tuple[int, int]
"""(level, index) of a complete subtree."""


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def joined(nodes: Sequence[bytes]) -> bytes:
    """The hash over complete subtrees that lie side by side, each larger than the next."""
    if not nodes:
        return EMPTY
    found = nodes[-1]
    for left in reversed(nodes[:-1]):
        found = node_hash(left, found)
    return found


# -- which nodes -------------------------------------------------------------------------------------------------------


def complete(begin: int, end: int) -> list[Node]:
    """The complete subtrees that a subtree over the leaves from `begin` to `end` is joined of, left to right."""
    found = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        found.append((level, begin >> level))
        begin += 1 << level
    return found


def inclusion_nodes(index: int, size: int) -> list[list[Node]]:
    """Of what the proof for leaf `index` in a tree of `size` leaves is made, from the leaf up."""
    begin, end, found = 0, size, []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            found.append(complete(middle, end))
            end = middle
        else:
            found.append(complete(begin, middle))
            begin = middle
    return found[::-1]


def consistency_nodes(old: int, size: int) -> list[list[Node]]:
    """Of what the proof is made that a tree of `size` leaves goes on from its first `old`."""
    if not 0 < old < size:
        return []
    begin, end, is_whole, found = 0, size, True, []
    while old < end:
        middle = begin + _split(end - begin)
        if old <= middle:
            found.append(complete(middle, end))
            end = middle
        else:
            found.append(complete(begin, middle))
            begin, is_whole = middle, False
    if not is_whole:
        found.append(complete(begin, end))
    return found[::-1]


def _split(size: int) -> int:
    """The largest power of two below it."""
    return 1 << (size - 1).bit_length() - 1


# -- what a proof says -------------------------------------------------------------------------------------------------


def root_from(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf's hash and its path come to; None where the path is of another length."""
    if not 0 <= index < size:
        return None
    found, last, left = leaf, size - 1, list(path)
    while last:
        if not left:
            return None
        if index & 1 or index == last:
            found = node_hash(left.pop(0), found)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            found = node_hash(found, left.pop(0))
        index, last = index >> 1, last >> 1
    return None if left else found


def is_consistent(old: tuple[int, bytes], new: tuple[int, bytes], path: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree `new` (size, root) goes on from `old`."""
    (old_size, old_root), (size, root) = old, new
    if old_size > size:
        return False
    if old_size in (0, size):
        return not path and old_root == (root if old_size == size else EMPTY) and (size > 0 or root == EMPTY)
    left, at, last = list(path), old_size - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    if not left and at:
        return False
    first = left.pop(0) if at else old_root
    was = now = first
    while last:
        if (at or last) and not left:
            return False
        if at & 1 or at == last:
            before = left.pop(0)
            was, now = node_hash(before, was), node_hash(before, now)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            now = node_hash(now, left.pop(0))
        at, last = at >> 1, last >> 1
    return not left and (was, now) == (old_root, root)
