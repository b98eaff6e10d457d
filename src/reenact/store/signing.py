"""Ed25519 keys, in files and never in the database, and what they authenticate there."""

from __future__ import annotations

import hmac
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

from reenact.errors import ChecksumMismatch, KeyUnavailable, NotAuthentic, StoreUnavailable
from reenact.journal.chain import encode
from reenact.store.private_file import make_private_file, read_private_file, replace_private_file


class SigningKey:
    """Signs what may be shown to others. `kid` names it: the first 16 hex digits of SHA-256 over the public key.

    What is derived from its seed makes MACs: by them the store knows the heads of runs that it wrote itself.
    """

    is_strict = True
    """Nothing was ever written under it that it does not vouch for. It says so itself, in its file: a database can be
    made to look like one of before."""

    def __init__(self, private: Ed25519PrivateKey, *, is_strict: bool = True) -> None:
        self.is_strict = is_strict
        self.sign: Callable[[bytes], bytes] = private.sign
        self.sign_at_once: Callable[[bytes], bytes] = private.sign
        """Inside a transaction, where nobody waits for long: SignFirst where it takes long."""
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.kid = sha256(raw).hexdigest()[:16]
        self.kid_bytes = bytes.fromhex(self.kid)
        self.public_key = urlsafe_b64encode(raw).rstrip(b"=").decode()
        self.mac = BegunMac(derived(private.private_bytes_raw(), MAC_INFO))


class SignFirst(Exception):
    """Raised inside a transaction, which is rolled back and begun again: nobody else can write while a command signs.

    `sign` is given how often that was so.
    """

    def __init__(self, sign: Callable[[int], object]) -> None:
        super().__init__("a command has to sign first")
        self.sign = sign


INNER = bytes([byte ^ 0x36 for byte in range(256)])
OUTER = bytes([byte ^ 0x5C for byte in range(256)])


class BegunMac:
    """HMAC-SHA-256 begun with a key (RFC 2104): to copy it is cheaper than to begin anew with each commit."""

    def __init__(self, key: bytes) -> None:
        whole = key.ljust(64, b"\0")
        self.inner = sha256(whole.translate(INNER))
        self.outer = sha256(whole.translate(OUTER))

    def then(self, text: bytes) -> BegunMac:
        """The same, gone on with what several texts begin with."""
        begun = BegunMac(b"")
        begun.inner, begun.outer = self.inner.copy(), self.outer.copy()
        begun.inner.update(text)
        return begun

    def of(self, text: bytes) -> bytes:
        inner, outer = self.inner.copy(), self.outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


MAC_INFO = b"reenact head mac"


WHAT = "the signing key"


def read_key(path: Path, *, follow: bool = False) -> SigningKey:
    """The key in a file that is its reader's alone; FileNotFoundError where there is none."""
    data = read_private_file(path, WHAT, follow=follow)
    try:
        private = load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        do = "put it back from a backup, or ask `reenact doctor`"
        raise StoreUnavailable(f"{WHAT} {path} is damaged; {do}") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise StoreUnavailable(f"{WHAT} {path} is not an Ed25519 key")
    return SigningKey(private, is_strict=STRICT in data)


STRICT = b"# reenact: this key vouches for every commit that was ever made under it\n"


def make_strict(path: Path) -> None:
    """A key of before, which has now vouched for what there was, says so from here on."""
    data = read_private_file(path, WHAT)
    if STRICT not in data:
        replace_private_file(path, data + STRICT, WHAT)


def create_key(path: Callable[[str], Path]) -> SigningKey:
    """A new key in the file that `path` names for its kid; the one that is there, where another process was faster."""
    private = Ed25519PrivateKey.generate()
    made = SigningKey(private)
    place, pem = path(made.kid), private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made if make_private_file(place, pem + STRICT, WHAT) else read_key(place)


def key_in_memory() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.generate())


def derived(seed: bytes, info: bytes) -> bytes:
    """HKDF-SHA-256 (RFC 5869) without a salt, 32 bytes."""
    return hmac.digest(hmac.digest(bytes(32), seed, "sha256"), info + b"\x01", "sha256")


# -- heads of runs -----------------------------------------------------------------------------------------------------

MAC_BYTES = 8 + 32
"""The kid, then the HMAC-SHA-256."""
KeyOf = Callable[[str], SigningKey | None]
"""The key of a kid; None where it is not here."""


def head_mac(key: SigningKey, store_id: str, run_id: str, n: int, head: str) -> bytes:
    """What lies beside commit `n` of a run, whose body has the digest `head`."""
    return with_kid(key, encode(["reenact.head.v1", store_id, run_id, n, head]))


def frontier_mac(key: SigningKey, store_id: str, run_id: str, n: int, frontier: bytes) -> bytes:
    """What lies beside the state that recovery starts from."""
    return with_kid(key, encode(["reenact.frontier.v2", store_id, run_id, n, sha256(frontier).hexdigest()]))


def late_mac(key: SigningKey, store_id: str, run_id: str, late: bytes) -> str:
    """What an executor that lost its lease puts with what it leaves for the next one."""
    return with_kid(key, encode(["reenact.late.v1", store_id, run_id, sha256(late).hexdigest()])).hex()


def is_late_mac(key_of: KeyOf, store_id: str, run_id: str, late: bytes, mac: str) -> bool:
    key = key_of(mac[:16])
    return key is not None and hmac.compare_digest(late_mac(key, store_id, run_id, late), mac)


def with_kid(key: SigningKey, text: bytes) -> bytes:
    return key.kid_bytes + key.mac.of(text)


def check_head(key_of: KeyOf, store_id: str, run_id: str, n: int, head: str, cell: object) -> str:
    """The kid under which the head of a commit is authenticated. KeyUnavailable where that key is not here."""
    where = f"run {run_id}, commit {n}"
    if not isinstance(cell, bytes) or len(cell) != MAC_BYTES:
        raise NotAuthentic(f"{where}: {UNAUTHENTIC} nothing vouches for it; see `reenact verify {run_id}`")
    kid = cell[:8].hex()
    key = key_of(kid)
    if key is None:
        raise missing_key(run_id, kid)
    if not hmac.compare_digest(head_mac(key, store_id, run_id, n, head), cell):
        raise NotAuthentic(
            f"{where}: {UNAUTHENTIC} it is not what the store's key {kid} vouched for; see `reenact verify {run_id}`"
        )
    return kid


UNAUTHENTIC = "nothing goes on with this run, and nothing is sent:"


def missing_key(run_id: str, kid: str) -> KeyUnavailable:
    return KeyUnavailable(
        f"run {run_id} needs key {kid}, which is not here, and is left as it is: name it in "
        "REENACT_SIGNING_KEY if it lies elsewhere, put it back from a backup, or "
        "`reenact keys replace --lost --reason '…'` where there is none any more",
        kid=kid,
    )


# -- what recovery starts from -----------------------------------------------------------------------------------------


def checked_frontier(
    key_of: KeyOf, store_id: str, run_id: str, n: int, stored: object, mac: object, place: int
) -> bytes | None:
    """The frontier that a key of ours vouched for; None under a key that is not here: then the journal is read."""
    if not isinstance(stored, bytes):
        raise ChecksumMismatch("what recovery starts from cannot be read; see `reenact verify`")
    if mac is None:
        return signed_frontier(key_of, place, stored)
    if isinstance(mac, bytes) and len(mac) == MAC_BYTES:
        key = key_of(mac[:8].hex())
        if key is None:
            return None
        is_ours = hmac.compare_digest(frontier_mac(key, store_id, run_id, n, stored), mac)
    else:
        is_ours = False
    if not is_ours:
        raise ChecksumMismatch("what recovery starts from is not what the store's key wrote; see `reenact verify`")
    return stored


FRONTIER_HEAD = 8 + 64
"""Of what was kept before there were MACs: the kid, then the Ed25519 signature."""


def signed_frontier(key_of: KeyOf, place: int, stored: bytes) -> bytes | None:
    """The frontier that a key of ours signed for this place, as it was done before."""
    key = key_of(stored[:8].hex())
    if key is None:
        return None
    if not is_signed({key.kid: key.public_key}, place, stored):
        raise ChecksumMismatch("what recovery starts from is not what the store's key signed; see `reenact verify`")
    return stored[FRONTIER_HEAD:]


def is_signed(public_keys: Mapping[str, str], place: int, stored: bytes) -> bool:
    """Whether one of the keys that the store has had signed what lies there, for that place."""
    text = public_keys.get(stored[:8].hex())
    if text is None:
        return False
    return has_signed(text, stored[8:FRONTIER_HEAD], frontier_message(place, stored[FRONTIER_HEAD:]))


def frontier_message(place: int, frontier: bytes) -> bytes:
    return b"reenact.frontier.v1|%d|" % place + frontier


def has_signed(public_key: str, signature: bytes, text: bytes) -> bool:
    """Whether this Ed25519 key, 32 bytes in base64url, signed the text."""
    try:
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(public_key + "="))
        key.verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
