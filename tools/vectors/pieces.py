"""What records are made of: ids, salts, times and keys from names and counters, digests and trees."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact.values.canonical import canonicalize
from reenact.values.clock import format_ts
from reenact.values.digest import digest, hmac_hex

Json = dict[str, Any]
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00.000Z
VERSION = "0.1.0"
STORE_ID = "example-store"
DROP = object()
TERMINAL = ("COMPLETED", "FAILED", "DENIED")


def uid(number: int) -> str:
    """A UUIDv7 that says which one it is."""
    return f"019b76da-a800-7000-8000-{number:012x}"


def salt(name: str) -> bytes:
    """32 bytes that stand for a random salt."""
    return sha256(f"salt:{name}".encode()).digest()


def at(ms: int) -> str:
    """A time, `ms` after the examples begin."""
    return format_ts(START_MS + ms)


def key_of(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(f"key:{name}".encode()).digest())


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def kid_of(key: Ed25519PrivateKey) -> str:
    return sha256(public_bytes(key)).hexdigest()[:16]


def b64(data: bytes) -> str:
    """base64url without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def changed(record: Json, change: Mapping[str, Any] | None) -> Json:
    merged = {**record, **(change or {})}
    return {key: value for key, value in merged.items() if value is not DROP}


def with_digest(record: Json, field: str = "digest") -> Json:
    """The record with `field` computed over everything else, unless a change has already put one in."""
    if field in record:
        return record
    return {**record, field: digest(record)}


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def tree_root(leaves: list[bytes]) -> str:
    """RFC 6962, section 2.1, as its recursive definition says it."""
    return _tree_hash(leaves).hex()


def _tree_hash(leaves: list[bytes]) -> bytes:
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + _tree_hash(leaves[:split]) + _tree_hash(leaves[split:])).digest()


def plan_hash(plan: Json) -> str:
    return "sha256:" + digest({key: value for key, value in plan.items() if key != "created_at"})


def mint(key: Ed25519PrivateKey, claims: Json, header: Json | None = None) -> str:
    """A capability: compact JWS over canonical header and payload."""
    head = header or {"alg": "EdDSA", "kid": kid_of(key), "typ": "JWT"}
    signed = f"{b64(canonicalize(head))}.{b64(canonicalize(claims))}"
    return f"{signed}.{b64(key.sign(signed.encode()))}"


KEY_SECRET = salt("key secret of the store")


def callers_key(server: str, tool: str, given: str) -> str:
    return "k:" + hmac_hex(KEY_SECRET, canonicalize(["caller", server, tool, given]))


def steps_key(key_run: str, step_id: str, server: str, tool: str, plan_salt: str, args: Json) -> str:
    arguments = hmac_hex(bytes.fromhex(plan_salt), canonicalize(args))
    return "s:" + hmac_hex(KEY_SECRET, canonicalize(["step", key_run, step_id, server, tool, arguments]))


def salted_key(plan_salt: str, given: str) -> str:
    """A caller's key in a run without `key_run`."""
    return "k:" + hmac_hex(bytes.fromhex(plan_salt), given.encode())
