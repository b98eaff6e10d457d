"""Ed25519 keys: in files, never in the database."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
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
from reenact.store.private_file import make_private_file, read_private_file


class SigningKey:
    """Signs capabilities. `kid` names it: the first 16 hex digits of SHA-256 over the public key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.sign: Callable[[bytes], bytes] = private.sign
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.kid = sha256(raw).hexdigest()[:16]
        self.public_key = urlsafe_b64encode(raw).rstrip(b"=").decode()


WHAT = "the signing key"


def read_key(path: Path, *, follow: bool = False) -> SigningKey:
    """The key in a file that is its reader's alone; FileNotFoundError where there is none."""
    try:
        private = load_pem_private_key(read_private_file(path, WHAT, follow=follow), password=None)
    except (ValueError, TypeError):
        raise StoreUnavailable(f"{WHAT} {path} is damaged; put it back from a backup") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise StoreUnavailable(f"{WHAT} {path} is not an Ed25519 key")
    return SigningKey(private)


def create_key(path: Callable[[str], Path]) -> SigningKey:
    """A new key in the file that `path` names for its kid; the one that is there, where another process was faster."""
    private = Ed25519PrivateKey.generate()
    made = SigningKey(private)
    place, pem = path(made.kid), private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made if make_private_file(place, pem, WHAT) else read_key(place)


def key_in_memory() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.generate())


FRONTIER_HEAD = 8 + 64
"""The kid, then the signature."""


def sign_frontier(key: SigningKey, place: int, frontier: bytes) -> bytes:
    """What recovery starts from, signed together with the commit that it belongs to."""
    return bytes.fromhex(key.kid) + key.sign(frontier_message(place, frontier)) + frontier


KeyOf = Callable[[str], SigningKey | None]
"""The key of a kid; None where it is not here."""


def signed_frontier(key_of: KeyOf, place: int, stored: object) -> bytes | None:
    """The frontier that a key of ours signed for this place; None under another: then the journal is read instead."""
    if not isinstance(stored, bytes):
        raise ChecksumMismatch("what recovery starts from cannot be read; see `reenact verify`")
    kid, signature, frontier = stored[:8], stored[8:FRONTIER_HEAD], stored[FRONTIER_HEAD:]
    key = key_of(kid.hex())
    if key is None:
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
