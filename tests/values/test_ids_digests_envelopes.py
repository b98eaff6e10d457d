"""Identifiers, digests, and payload envelopes."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import CanonicalizationError, ChecksumMismatch, UsageError
from reenact.values.digest import ZERO_DIGEST, digest, hmac_hex, sha256_hex
from reenact.values.envelope import make_envelope, open_envelope
from reenact.values.ids import is_uuid7, project_uuid7

UUID7 = "01890a5d-ac96-774b-bcce-b302099a8057"
SALT = bytes(range(32))


def test_an_id_that_is_a_uuid7_stands_for_itself() -> None:
    assert project_uuid7(UUID7) == UUID7


def test_any_other_id_is_projected_by_its_digest() -> None:
    # SHA-256("my-plan") begins with these 16 bytes; version and variant bits are set in bytes 6 and 8.
    first = bytearray(hashlib.sha256(b"my-plan").digest()[:16])
    first[6] = 0x70 | first[6] % 16
    first[8] = 0x80 | first[8] % 64
    assert project_uuid7("my-plan").replace("-", "") == first.hex()
    assert is_uuid7(project_uuid7("my-plan"))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_projections_are_uuid7_and_tell_texts_apart(one: str, other: str) -> None:
    assert is_uuid7(project_uuid7(one))
    assert (project_uuid7(one) == project_uuid7(other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        UUID7 + "\n",
        UUID7.upper(),
        UUID7.replace("-774b", "-474b"),
        UUID7.replace("-bcce", "-ccce"),
        UUID7.replace("-", ""),
        "{" + UUID7 + "}",
        " " + UUID7,
        "",
    ],
)
def test_only_a_whole_lowercase_uuid7_is_one(text: str) -> None:
    assert not is_uuid7(text)
    assert project_uuid7(text) != text


def test_digests_are_bare_lowercase_hex_over_canonical_json() -> None:
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest({"b": 1, "a": [2.0, "é"]}) == hashlib.sha256('{"a":[2,"é"],"b":1}'.encode()).hexdigest()
    assert hmac_hex(b"key", b"data") == hmac.new(b"key", b"data", "sha256").hexdigest()
    assert ZERO_DIGEST == "0" * 64


def test_an_envelope_is_salt_and_canonical_bytes_and_its_commitment_their_digest() -> None:
    commitment, envelope = make_envelope({"b": 1, "a": "é"}, SALT)
    assert envelope == SALT + '{"a":"é","b":1}'.encode()
    assert commitment == hashlib.sha256(envelope).hexdigest()
    assert open_envelope(envelope, commitment) == {"b": 1, "a": "é"}


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53) + 1, 2**53 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    ),
    max_leaves=10,
)


@given(values, st.binary(min_size=32, max_size=32))
def test_whatever_is_put_in_an_envelope_comes_out_of_it(value: object, salt: bytes) -> None:
    commitment, envelope = make_envelope(value, salt)
    assert open_envelope(envelope, commitment) == value


def test_the_salt_changes_the_commitment() -> None:
    assert make_envelope("yes", SALT)[0] != make_envelope("yes", bytes(32))[0]


@pytest.mark.parametrize("position", [0, 31, 32, -1])
def test_a_changed_byte_does_not_fit_the_commitment(position: int) -> None:
    commitment, envelope = make_envelope([1, 2, 3], SALT)
    damaged = bytearray(envelope)
    damaged[position] ^= 1
    with pytest.raises(ChecksumMismatch):
        open_envelope(bytes(damaged), commitment)
    with pytest.raises(ChecksumMismatch):
        open_envelope(envelope[:-1], commitment)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b'{"b":1,"a":2}', b"\xff", b"9007199254740993"])
def test_bytes_that_fit_but_hold_no_canonical_value_are_refused(content: bytes) -> None:
    envelope = SALT + content
    with pytest.raises(ChecksumMismatch, match=r"no value|no canonical JSON"):
        open_envelope(envelope, sha256_hex(envelope))
    with pytest.raises(ChecksumMismatch):
        open_envelope(b"short", sha256_hex(b"short"))


def test_what_cannot_be_enveloped_is_refused() -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        make_envelope(1, b"short")
    with pytest.raises(CanonicalizationError):
        make_envelope({"a": b"bytes"}, SALT)
