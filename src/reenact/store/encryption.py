"""Encryption of secrets in recorded values, and its keys: a file beside the store, or `REENACT_SEAL_KEY`."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from reenact.errors import SecretError, StoreUnavailable
from reenact.store.private_file import make_private_file, read_private_file
from reenact.values.canonical import canonicalize, parse_canonical

KEY_VARIABLE = "REENACT_SEAL_KEY"
SHORTEST_KEY = 16
DOMAIN = b"reenact.sealed.v1"
SUFFIX = ".encryption-key"
WHAT = "the store's encryption key"


class KeyFile:
    """The keys beside a store, one a line: the first encrypts, each decrypts what it has encrypted.

    It is made when something is first encrypted. For the path None the keys live in memory. `note` hears the name of a
    key that is used for the first time here, before it is.
    """

    def __init__(
        self, path: Path | None, keys: tuple[bytes, ...] = (), note: Callable[[str], None] = lambda _: None
    ) -> None:
        self.path = path
        self._keys = keys
        self._note = note
        self._used: bytes | None = None

    def keys(self) -> tuple[bytes, ...]:
        """Those that are there now; none where nothing was encrypted yet, or the file was lost."""
        if self.path is not None:
            try:
                self._keys = read_keys(self.path)
            except FileNotFoundError:
                self._keys = ()
        return self._keys

    def named(self, name: str) -> bytes | None:
        """The key of this name, if it is there."""
        if all(key_name(key) != name for key in self._keys):
            self.keys()  # it may have been put back, or made by another process
        return next((key for key in self._keys if key_name(key) == name), None)

    def first(self) -> bytes:
        """The key to encrypt with. It is durable before anything is encrypted with it."""
        if not self._keys and not self.keys():
            text = b64encode(ChaCha20Poly1305.generate_key()).decode()
            if self.path is None:
                self._keys = (key_of(text),)
            else:
                make_private_file(self.path, f"{text}\n".encode(), WHAT)
                self._keys = read_keys(self.path)
        key = self._keys[0]
        if key != self._used:
            self._note(key_name(key))
            self._used = key
        return key

    def in_memory(self) -> KeyFile:
        """The same keys for a store that is thrown away, as far as they can be read; nothing there makes a file."""
        with suppress(StoreUnavailable):
            return KeyFile(None, self.keys())
        return KeyFile(None)


class Keyring:
    """The keys that are here: `REENACT_SEAL_KEY` before all others where it is set, then those of a store's file."""

    def __init__(self, file: KeyFile) -> None:
        self._file = file
        self._given = given_key()

    def first(self) -> bytes:
        """The key to encrypt with."""
        return self._given or self._file.first()

    def key_for(self, text: str) -> bytes | None:
        """The key that an encrypted text names, if it is here."""
        name = name_in(text)
        if self._given is not None and key_name(self._given) == name:
            return self._given
        return self._file.named(name)

    def advice(self, text: str) -> str:
        """What to do for an encrypted text whose key is not here."""
        beside = "" if self._file.path is None else f", or put it back into {self._file.path}"
        return f"set {KEY_VARIABLE} to the key that is called {name_in(text)[:8]}{beside}"


def given_key() -> bytes | None:
    """The key in the environment; SecretError where it is too short to be one."""
    text = os.environ.get(KEY_VARIABLE)
    if not text:
        return None
    if len(text) < SHORTEST_KEY:
        raise SecretError(f"{KEY_VARIABLE} is too short to keep a secret; make one with `openssl rand -base64 32`")
    return key_of(text)


def read_keys(path: Path) -> tuple[bytes, ...]:
    """The keys in a file; FileNotFoundError where there is none."""
    lines = read_private_file(path, WHAT).decode("utf-8", "surrogateescape").split()
    if not lines or any(len(line) < SHORTEST_KEY for line in lines):
        raise StoreUnavailable(f"{WHAT} {path} is damaged; put it back from a backup, or move it away to begin anew")
    return tuple(map(key_of, lines))


def key_of(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32, person=b"reenact.seal").digest()


def key_name(key: bytes) -> str:
    """Tells one key from another, and nothing else about it."""
    return blake2b(b"name", key=key, digest_size=4).hexdigest()


def name_in(text: str) -> str:
    """The name of the key that a text says it was encrypted with."""
    return text.partition(".")[2].partition(".")[0]


def encrypt_text(key: bytes, secret: object) -> str:
    """Equal secrets give equal texts, so that a run stores them once; the nonce is a keyed hash of the content."""
    content = canonicalize(secret)
    nonce = blake2b(content, key=key, digest_size=12).digest()
    encrypted = b64encode(nonce + ChaCha20Poly1305(key).encrypt(nonce, content, DOMAIN)).decode()
    return f"v1.{key_name(key)}.{encrypted}"


def decrypt_text(key: bytes, text: str) -> object:
    """The secret; SecretError when it was encrypted with another key, or by nobody."""
    version, _, rest = text.partition(".")
    name, _, body = rest.partition(".")
    if version != "v1":
        raise SecretError("a value was encrypted by another version of reenact, or by nobody")
    if name != key_name(key):
        raise SecretError(f"a value was encrypted with another key ({name[:8]}) than this one ({key_name(key)})")
    try:
        data = b64decode(body, validate=True)
        content = ChaCha20Poly1305(key).decrypt(data[:12], data[12:], DOMAIN)
    except (InvalidTag, ValueError):
        raise SecretError("an encrypted value does not open with its key: it was changed") from None
    return parse_canonical(content, what="encrypted value")
