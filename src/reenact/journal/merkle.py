"""RFC 6962 Merkle trees, built leaf by leaf in memory that grows with the logarithm of the leaves."""

from __future__ import annotations

from hashlib import sha256

EMPTY_ROOT = sha256(b"").hexdigest()


class MerkleTree:
    """Append leaves, ask for the root at any time. `frontier` is all there is to keep (RFC 6962, section 2.1)."""

    __slots__ = ("frontier", "size")

    def __init__(self, size: int = 0, frontier: list[bytes] | None = None) -> None:
        self.size = size
        self.frontier: list[bytes] = frontier or []

    def append(self, leaf: bytes) -> None:
        node = sha256(b"\x00" + leaf).digest()
        size = self.size
        while size & 1:  # a full left sibling waits: two subtrees of equal size become one
            node = sha256(b"\x01" + self.frontier.pop() + node).digest()
            size >>= 1
        self.frontier.append(node)
        self.size += 1

    def root(self) -> str:
        if not self.frontier:
            return EMPTY_ROOT
        node = self.frontier[-1]
        for left in reversed(self.frontier[:-1]):
            node = sha256(b"\x01" + left + node).digest()
        return node.hex()
