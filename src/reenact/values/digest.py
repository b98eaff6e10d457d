"""Digests: lowercase hex SHA-256, bare, over bytes or over canonical JSON."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

from reenact.values.canonical import canonicalize

ZERO_DIGEST: Final = "0" * 64
"""What stands where a chain has no predecessor."""


def sha256_hex(data: bytes) -> str:
    return sha256(data).hexdigest()


def digest(obj: object) -> str:
    """SHA-256 over the canonical JSON of `obj`."""
    return sha256(canonicalize(obj)).hexdigest()


def hmac_hex(key: bytes, data: bytes) -> str:
    """HMAC-SHA-256 of `data` under `key`."""
    return hmac.digest(key, data, "sha256").hex()
