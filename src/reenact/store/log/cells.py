"""Cells of the log's tables, provided that they hold what their column is for; DamagedRecord for any other."""

from __future__ import annotations

from typing import TypeVar

from reenact.errors import DamagedRecord
from reenact.store.log.rows import Peer, SignedHead
from reenact.verify.log.merkle import HASH_BYTES

T = TypeVar("T", bytes, str, int)
REBUILD = "`reenact log checkpoint --rebuild` makes the tree again from the seals"


def checked(table: str, place: str, value: object, kind: type[T]) -> T:
    """A cell, provided that it is of its column's type."""
    if type(value) is not kind:
        raise DamagedRecord(f"{table}, {place}: this is no {kind.__name__}; see `reenact verify`")
    return value


def head_of(row: tuple[object, ...]) -> SignedHead:
    size, root, kid, signature = row
    place = f"size {size}"
    found = SignedHead(
        checked("log_checkpoints", place, size, int),
        checked("log_checkpoints", f"{place}, root", root, bytes),
        checked("log_checkpoints", f"{place}, kid", kid, str),
        checked("log_checkpoints", f"{place}, signature", signature, bytes),
    )
    if len(found.root) != HASH_BYTES or found.size < 1:
        raise DamagedRecord(f"log_checkpoints, {place}: a root has {HASH_BYTES} bytes; see `reenact verify`")
    return found


def peer_of(row: tuple[object, ...]) -> Peer:
    name, kind, url, seen, failures, next_ms, trouble = row
    return Peer(
        checked("log_peers", "name", name, str),
        checked("log_peers", "kind", kind, str),
        checked("log_peers", "url", url, str),
        checked("log_peers", "seen", seen, int),
        checked("log_peers", "failures", failures, int),
        checked("log_peers", "next_ms", next_ms, int),
        None if trouble is None else checked("log_peers", "trouble", trouble, str),
    )
