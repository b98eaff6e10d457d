"""The tree that grows by a leaf at a time, against the recursive text of RFC 6962."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from reenact.journal.chain import MerkleTree

LEAVES = st.lists(st.binary(max_size=6), max_size=70)


def mth(leaves: list[bytes]) -> bytes:
    """Merkle Tree Hash, RFC 6962, section 2.1, word for word."""
    n = len(leaves)
    if n == 0:
        return sha256(b"").digest()
    if n == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < n:  # the largest power of two smaller than n
        k *= 2
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def grown(leaves: list[bytes]) -> MerkleTree:
    tree = MerkleTree()
    for leaf in leaves:
        tree.append(leaf)
    return tree


@given(LEAVES)
def test_the_root_is_that_of_the_rfc(leaves: list[bytes]) -> None:
    assert grown(leaves).root() == mth(leaves).hex()


@given(LEAVES, LEAVES)
def test_a_tree_goes_on_from_its_frontier(before: list[bytes], after: list[bytes]) -> None:
    kept = grown(before)
    again = MerkleTree(kept.size, list(kept.frontier))
    for leaf in after:
        again.append(leaf)
    assert again.root() == mth(before + after).hex()
    assert kept.root() == mth(before).hex(), "what was kept has not changed"


@given(LEAVES)
def test_memory_grows_with_the_logarithm(leaves: list[bytes]) -> None:
    assert len(grown(leaves).frontier) == len(leaves).bit_count()
