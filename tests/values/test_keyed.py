"""Randomness that is a function of its key."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.values.clock import keyed_random


def test_the_stream_is_hmac_over_a_counter() -> None:
    key = sha256(b"s3:runi1:0").digest()
    expected = b"".join(hmac.digest(key, bytes(7) + bytes([block]), "sha256") for block in range(3))
    assert keyed_random("run", 0).bytes(96) == expected


def test_the_first_draws_never_change() -> None:
    source = keyed_random("run", "step", 3)
    drawn = [source.randrange(1000), source.random(), source.bytes(4).hex(), source.choice("abcdef")]
    assert drawn == [77, 0.6124293356683483, "6ea4fe4c", "f"]


def test_the_stream_does_not_depend_on_how_it_is_read() -> None:
    whole = keyed_random("k").bytes(100)
    source = keyed_random("k")
    assert b"".join(source.bytes(size) for size in (1, 0, 31, 33, 35)) == whole


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "b"), ("ab",)), ((1,), ("1",)), (("",), ()), (("a1", "b"), ("a", "1b")), ((-1,), (1,))]
)
def test_different_parts_are_different_keys(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert keyed_random(*one).bytes(16) != keyed_random(*other).bytes(16)


@given(st.integers(1, 2**200), st.integers())
def test_draws_stay_in_their_range(bound: int, key: int) -> None:
    source = keyed_random(key)
    assert 0 <= source.randrange(bound) < bound
    assert 0 <= source.random() < 1


def test_draws_are_spread_evenly() -> None:
    source = keyed_random("even")
    counts = [0] * 6
    for _ in range(12_000):
        counts[source.randrange(6)] += 1
    assert all(1800 < count < 2200 for count in counts)
    assert 0.48 < sum(source.random() for _ in range(5000)) / 5000 < 0.52


def test_shuffling_keeps_the_items_and_depends_on_the_key_alone() -> None:
    first, again, other = list(range(50)), list(range(50)), list(range(50))
    keyed_random("a").shuffle(first)
    keyed_random("a").shuffle(again)
    keyed_random("b").shuffle(other)
    assert first == again
    assert first != other
    assert sorted(first) == list(range(50))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UsageError):
        keyed_random("k").randrange(0)
    with pytest.raises(UsageError):
        keyed_random("k").choice([])
