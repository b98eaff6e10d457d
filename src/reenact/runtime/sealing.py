"""Secrets on their way to the disk: replaced by a mark, or encrypted under a key that lies outside the store."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from reenact.errors import SecretError
from reenact.policy.redaction import REDACTED, SecretRules
from reenact.runtime.secrets import Secrets
from reenact.values.canonical import canonicalize, parse_canonical

KEY_VARIABLE = "REENACT_SEAL_KEY"


class Sealer:
    """Takes secrets out of values before they are written. Without a key they are gone; with one they are sealed."""

    def __init__(self, secrets: Secrets, fields: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self._fields = fields
        self._key = seal_key()
        self._rules: dict[tuple[str, ...], tuple[int, SecretRules]] = {}

    @property
    def can_seal(self) -> bool:
        return self._key is not None

    def rules(self, hints: tuple[str, ...] = ()) -> SecretRules:
        """The rules for one skill's values; made anew when another secret was handed out."""
        known = self._secrets.known_values
        cached = self._rules.get(hints)
        if cached is None or cached[0] != len(known):
            cached = (len(known), SecretRules(known, (*self._fields, *hints)))
            self._rules[hints] = cached
        return cached[1]

    def redact(self, value: object, hints: tuple[str, ...] = ()) -> object:
        return self.rules(hints).apply(value, self._replace)

    def redact_text(self, text: str) -> str:
        """For what stands in the chain or on a screen: there nothing is ever sealed."""
        return str(self.rules().apply_text(text, lambda _: REDACTED))

    def _replace(self, secret: object) -> object:
        return REDACTED if self._key is None else {"$sealed": seal(self._key, secret)}

    def unseal(self, value: object) -> object:
        """What `redact` sealed, opened again; a mark stays a mark, and so does a seal without its key."""
        if isinstance(value, dict):
            if set(value) == {"$sealed"} and isinstance(value["$sealed"], str):
                return value if self._key is None else open_seal(self._key, value["$sealed"])
            return {key: self.unseal(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.unseal(item) for item in value]
        return value


def seal_key() -> bytes | None:
    text = os.environ.get(KEY_VARIABLE)
    return blake2b(text.encode(), digest_size=32, person=b"reenact.seal").digest() if text else None


def seal(key: bytes, secret: object) -> str:
    """Equal secrets give equal texts, so that a run stores them once; the nonce is a keyed hash of the content."""
    content = canonicalize(secret)
    nonce = blake2b(content, key=key, digest_size=12).digest()
    return b64encode(nonce + ChaCha20Poly1305(key).encrypt(nonce, content, b"reenact.sealed.v1")).decode()


def open_seal(key: bytes, text: str) -> object:
    try:
        data = b64decode(text, validate=True)
        content = ChaCha20Poly1305(key).decrypt(data[:12], data[12:], b"reenact.sealed.v1")
    except (InvalidTag, ValueError):
        raise SecretError(
            f"a sealed value does not open with this {KEY_VARIABLE}; use the one it was sealed with"
        ) from None
    return parse_canonical(content, what="sealed value")
