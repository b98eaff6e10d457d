"""The Merkle tree hash of RFC 6962, section 2.1, over leaves that come one by one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

EMPTY_ROOT: Final = sha256(b"").hexdigest()


class Tree:
    """Holds one hash per complete subtree: at most one for each bit of the number of leaves."""

    def __init__(self) -> None:
        self.size = 0
        self._complete: list[bytes] = []  # left to right, each larger than the next

    def append(self, leaf: bytes) -> None:
        node = sha256(b"\x00" + leaf).digest()
        size = self.size
        while size & 1:
            node = sha256(b"\x01" + self._complete.pop() + node).digest()
            size >>= 1
        self._complete.append(node)
        self.size += 1

    def root(self, more: Iterable[bytes] = ()) -> str:
        """The root over all leaves so far and `more`, which are not kept."""
        whole = Tree()
        whole.size, whole._complete = self.size, self._complete[:]
        for leaf in more:
            whole.append(leaf)
        if not whole.size:
            return EMPTY_ROOT
        node = whole._complete[-1]
        for left in reversed(whole._complete[:-1]):
            node = sha256(b"\x01" + left + node).digest()
        return node.hex()
