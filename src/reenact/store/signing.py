"""The store's Ed25519 key: in a file beside the database, never in it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from reenact.errors import ChecksumMismatch, StoreUnavailable
from reenact.store.private_file import make_private_file


class SigningKey:
    """Signs capabilities. `kid` names it: the first 16 hex digits of SHA-256 over the public key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.sign = private.sign
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.kid = sha256(raw).hexdigest()[:16]
        self.public_key = urlsafe_b64encode(raw).rstrip(b"=").decode()


def load_or_create(path: Path | None) -> SigningKey:
    """The key in `path`, made with mode 0600 when there is none; a key that lives in memory for None."""
    if path is None:
        return SigningKey(Ed25519PrivateKey.generate())
    try:
        return read_key(path)
    except FileNotFoundError:
        return create_key(path)


def read_key(path: Path) -> SigningKey:
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnavailable(f"the store's key {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise StoreUnavailable(f"the store's key {path} is damaged; move it away and a new one is made") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise StoreUnavailable(f"the store's key {path} is not an Ed25519 key")
    return SigningKey(private)


def create_key(path: Path) -> SigningKey:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if not make_private_file(path, pem, "the store's key"):
        return read_key(path)
    return SigningKey(private)


FRONTIER_HEAD = 8 + 64
"""The kid, then the signature."""


def sign_frontier(key: SigningKey, place: int, frontier: bytes) -> bytes:
    """What recovery starts from, signed together with the commit that it belongs to."""
    return bytes.fromhex(key.kid) + key.sign(frontier_message(place, frontier)) + frontier


def signed_frontier(key: SigningKey, place: int, stored: object) -> bytes | None:
    """The frontier that this key signed for this place; None under another key: then the journal is read instead."""
    if not isinstance(stored, bytes):
        raise ChecksumMismatch("what recovery starts from cannot be read; see `reenact verify`")
    kid, signature, frontier = stored[:8], stored[8:FRONTIER_HEAD], stored[FRONTIER_HEAD:]
    if kid != bytes.fromhex(key.kid):
        return None
    if key.sign(frontier_message(place, frontier)) != signature:  # Ed25519 signs the same text the same way
        raise ChecksumMismatch("what recovery starts from is not what the store's key signed; see `reenact verify`")
    return frontier


def is_signed(public_keys: Mapping[str, str], place: int, stored: bytes) -> bool:
    """Whether one of the keys that the store has had signed what lies there, for that place."""
    text = public_keys.get(stored[:8].hex())
    if text is None:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(text + "="))
        key.verify(stored[8:FRONTIER_HEAD], frontier_message(place, stored[FRONTIER_HEAD:]))
    except (InvalidSignature, ValueError):
        return False
    return True


def frontier_message(place: int, frontier: bytes) -> bytes:
    return b"reenact.frontier.v1|%d|" % place + frontier
