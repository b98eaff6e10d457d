"""The tree of RFC 6962: proofs of every leaf and every size, and none of them proves anything else."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.store.log.log import Edge
from reenact.verify.log.merkle import (
    EMPTY,
    Node,
    complete,
    consistency_nodes,
    inclusion_nodes,
    is_consistent,
    joined,
    leaf_hash,
    root_from,
)
from reenact.verify.tree import Tree

LEAVES = [str(number).encode() for number in range(200)]


def root(leaves: list[bytes]) -> bytes:
    """As section 2.1 defines it, and no faster."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return sha256(b"\x01" + root(leaves[:half]) + root(leaves[half:])).digest()


def made(groups: list[list[Node]]) -> list[bytes]:
    return [joined([root(LEAVES[index << level : (index + 1) << level]) for level, index in group]) for group in groups]


# The trees of Certificate Transparency's own tests, as the RFC's reference implementation has them.
CT_LEAVES = [bytes.fromhex(x) for x in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657",
                                        "606162636465666768696a6b6c6d6e6f")]  # fmt: skip
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_the_roots_are_those_that_certificate_transparency_publishes() -> None:
    edge = Edge()
    for leaf, expected in zip(CT_LEAVES, CT_ROOTS, strict=True):
        edge.append(leaf_hash(leaf))
        assert joined(edge.hashes).hex() == expected
    assert joined([]) == EMPTY


@given(st.integers(1, 150), st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_from_no_other(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(0, size - 1))
    path = made(inclusion_nodes(index, size))
    whole = root(LEAVES[:size])
    assert root_from(leaf_hash(LEAVES[index]), index, size, path) == whole
    if other != index:
        assert root_from(leaf_hash(LEAVES[other]), index, size, path) != whole
        assert root_from(leaf_hash(LEAVES[index]), other, size, path) != whole
    assert root_from(leaf_hash(LEAVES[index]), index, size, [*path, EMPTY]) is None
    if path:
        assert root_from(leaf_hash(LEAVES[index]), index, size, path[:-1]) is None
    assert root_from(leaf_hash(LEAVES[index]), size, size, path) is None


@given(st.integers(0, 150), st.integers(0, 150), st.integers(0, 31), st.binary(min_size=32, max_size=32))
def test_a_tree_that_goes_on_is_proven_to_and_no_other_is(old: int, size: int, place: int, wrong: bytes) -> None:
    old, size = sorted((old, size))
    was, now, path = root(LEAVES[:old]), root(LEAVES[:size]), made(consistency_nodes(old, size))
    assert is_consistent((old, was), (size, now), path)
    assert not is_consistent((old, wrong), (size, now), path)
    if size:
        assert old == 0 or not is_consistent((old, was), (size, wrong), path)
    if path:
        changed = list(path)
        changed[place % len(path)] = wrong
        assert not is_consistent((old, was), (size, now), changed)
        assert not is_consistent((old, was), (size, now), path[:-1])
    assert not is_consistent((old, was), (size, now), [*path, wrong])
    assert old == size or not is_consistent((size, now), (old, was), path)


@given(st.lists(st.binary(max_size=3), max_size=70))
def test_the_edge_of_a_growing_tree_has_the_root_that_the_seals_tree_has(leaves: list[bytes]) -> None:
    edge, tree = Edge(), Tree()
    for leaf in leaves:
        edge.append(leaf_hash(leaf))
        tree.append(leaf)
    assert joined(edge.hashes).hex() == tree.root()
    nodes = dict(edge.added)
    assert [nodes[node] for node in complete(0, len(leaves))] == edge.hashes


def test_another_implementation_comes_to_the_same_proofs() -> None:
    """`pymerkle`, where it is installed."""
    pymerkle = pytest.importorskip("pymerkle", reason="pymerkle is not installed: nobody else checks the proofs here")
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    edge = Edge()
    for leaf in LEAVES[:40]:
        tree.append_entry(leaf)
        edge.append(leaf_hash(leaf))
    assert tree.get_root() == joined(edge.hashes)
    for index in range(40):
        proof = tree.prove_inclusion(index + 1, 40)
        pymerkle.verify_inclusion(leaf_hash(LEAVES[index]), joined(edge.hashes), proof)
        assert proof.path[1:] == made(inclusion_nodes(index, 40)), index
