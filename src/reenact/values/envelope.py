"""Payload envelopes: a value that lies beside the chain, and the commitment that stands in it.

envelope = 32 bytes of salt, then the canonical JSON of the value; commitment = hex SHA-256 of the envelope.
The salt keeps a short value from being guessed from its commitment after the value itself was erased.
"""

from __future__ import annotations

from typing import Final

from reenact.errors import ChecksumMismatch, JsonSyntaxError, UsageError
from reenact.values.canonical import canonicalize, parse_canonical
from reenact.values.digest import sha256_hex

SALT_BYTES: Final = 32
LARGEST_ENVELOPE: Final = 64 << 20
"""The largest value that is kept, with its salt. What claims to be more when it is unpacked is damage."""
LARGEST_RESULT: Final = (LARGEST_ENVELOPE - 4096) * 3 // 4
"""The largest value that a tool returns, as JSON: kept encrypted, it grows by a third."""


class Archived(LookupError):
    """The value was moved to a bundle; `reenact archive --restore` brings it back."""


def make_envelope(value: object, salt: bytes) -> tuple[str, bytes]:
    """(commitment, envelope) of `value` under a salt of 32 bytes."""
    if len(salt) != SALT_BYTES:
        raise UsageError(f"an envelope's salt has {SALT_BYTES} bytes, not {len(salt)}")
    envelope = salt + canonicalize(value)
    return sha256_hex(envelope), envelope


def open_envelope(envelope: bytes, commitment: str) -> object:
    """The value in `envelope`; ChecksumMismatch unless its bytes are those that `commitment` names."""
    if sha256_hex(envelope) != commitment:
        raise ChecksumMismatch(f"a payload does not fit its commitment {commitment[:16]}…")
    if len(envelope) <= SALT_BYTES:
        raise ChecksumMismatch(f"the payload of commitment {commitment[:16]}… holds no value")
    try:
        return parse_canonical(envelope[SALT_BYTES:], what="payload")
    except JsonSyntaxError as error:
        raise ChecksumMismatch(f"the payload of commitment {commitment[:16]}… is no canonical JSON: {error}") from error
