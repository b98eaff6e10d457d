"""Hashes of the replay log: `sha256:` and the hex SHA-256 over the canonical form of a whole value.

We write RFC 8785. Other producers sort keys by code point and print 1.0 as `1.0`: their hashes are recognised, and it
is said which form it was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from reenact.errors import CanonicalizationError
from reenact.values.canonical import MAX_SAFE_INTEGER, canonicalize
from reenact.values.digest import sha256_hex
from reenact.values.legacy_json import code_point_json
from reenact.values.numbers import format_number

PREFIX: Final = "sha256:"
_HEX: Final = frozenset("0123456789abcdef")


class HashForm(StrEnum):
    """Which canonical form a hash was made over."""

    RFC_8785 = "RFC 8785"
    CODE_POINTS = "keys by code point, 1.0 as 1.0"


def canonical_hash(value: object) -> str:
    """The hash that stands in a log for `value`."""
    return PREFIX + sha256_hex(canonical(value))


def canonical(value: object) -> bytes:
    """RFC 8785. Of what was read, integers are taken for the doubles that are printed so: canonical JSON writes one of
    2^53 up to 1e21 without an exponent. CanonicalizationError for those that no double is."""
    try:
        return canonicalize(value)
    except CanonicalizationError as error:
        try:
            return canonicalize(_with_doubles(value))
        except RecursionError:
            raise error from None


def wide_integer(text: str) -> int:
    """Integers that canonical JSON prints, and those of 64 bits, which other producers write; ValueError for more."""
    if len(text) > 22:
        raise ValueError
    value = int(text)
    if not -(1 << 63) <= value < 1 << 64 and not _is_double(value):
        raise ValueError
    return value


def _is_double(value: int) -> bool:
    return format_number(float(value)) == str(value)


def _with_doubles(value: object) -> object:
    if isinstance(value, dict):
        return {key: _with_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    if type(value) is int and abs(value) > MAX_SAFE_INTEGER and _is_double(value):
        return float(value)
    return value


def hash_of_bytes(data: bytes) -> str:
    return PREFIX + sha256_hex(data)


def is_hash(text: str) -> bool:
    """False for what some examples hold in its place, `sha256:abc123...`."""
    digest = text.removeprefix(PREFIX)
    return text.startswith(PREFIX) and len(digest) == 64 and set(digest) <= _HEX


def form_of(value: object, expected: str) -> HashForm | None:
    """The form in which `value` has this hash; None where it has it in neither."""
    try:
        if canonical_hash(value) == expected:
            return HashForm.RFC_8785
    except CanonicalizationError:
        pass  # integers beyond ±(2^53−1): the other form has a spelling for them
    return HashForm.CODE_POINTS if hash_of_bytes(code_point_json(value)) == expected else None
