"""Redact or encrypt secrets before values are written: replaced by a mark, or kept under a key outside the store."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.references import has_encrypted, is_encrypted
from reenact.errors import CanonicalizationError, SecretError, SkillError
from reenact.policy.redaction import REDACTED, SecretRules
from reenact.runtime.effects.secrets import Secrets
from reenact.values.canonical import canonicalize, parse_canonical

KEY_VARIABLE = "REENACT_SEAL_KEY"
SHORTEST_KEY = 16
DOMAIN = b"reenact.sealed.v1"


class Redactor:
    """Takes secrets out of values before they are written. Without a key they are gone; with one they are encrypted."""

    def __init__(self, secrets: Secrets, fields: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self._fields = fields
        self._key = encryption_key()
        self._opened: set[str] = set()
        self._rules: dict[tuple[str, ...], tuple[int, SecretRules]] = {}
        self._handed_out = (0, SecretRules())

    @property
    def can_encrypt(self) -> bool:
        return self._key is not None

    def rules(self, hints: tuple[str, ...] = ()) -> SecretRules:
        """The rules for one skill's values; made anew when another secret was handed out, or opened."""
        count = len(self._secrets.seen) + len(self._opened)  # neither ever shrinks
        cached = self._rules.get(hints)
        if cached is None or cached[0] != count:
            known = self._secrets.known_values | self._opened
            cached = self._rules[hints] = (count, SecretRules(known, (*self._fields, *hints)))
        return cached[1]

    def content(self, value: object, hints: tuple[str, ...] = ()) -> tuple[bytes, bool]:
        """Canonical bytes of the value as it may be written, and whether nothing in it looks like a secret."""
        if self._key is None:
            rules = self.rules(hints)
            try:
                content = canonicalize(value)
            except CanonicalizationError:
                pass  # what cannot be said may be in a secret that is taken out
            else:
                if rules.passes(value, content):
                    return content, True
        return canonicalize(self.redact(value, hints)), False

    def redact(self, value: object, hints: tuple[str, ...] = ()) -> object:
        """The value as it may be written. With a key nothing is lost: a text that holds a secret is encrypted whole."""
        if self._key is None:
            return self.rules(hints).apply(value, lambda _: REDACTED)
        return self.rules(hints).apply(value, self._encrypt, whole=True)

    def mark(self, value: object, hints: tuple[str, ...] = ()) -> object:
        """The value as it may be shown, on a screen, in a log or in the chain: secrets go, never encrypted."""
        return self.rules(hints).apply(value, lambda _: REDACTED)

    def redact_text(self, text: str) -> str:
        rules = self.rules()
        return text if rules.passes_text(text) else str(rules.apply_text(text, lambda _: REDACTED))

    def mark_outcome(self, outcome: StructuredOutcome, hints: tuple[str, ...] = ()) -> StructuredOutcome:
        """The outcome as listeners get it."""
        message, details = self.redact_text(outcome.message), self.mark(outcome.details, hints)
        if message is outcome.message and details is outcome.details:
            return outcome
        return replace(outcome, message=message, details=details if isinstance(details, dict) else None)

    def handed_out(self) -> SecretRules:
        """The rules about secrets of the host alone: what a tool returned is the caller's to have."""
        count = len(self._secrets.seen)
        if self._handed_out[0] != count:
            self._handed_out = (count, SecretRules(self._secrets.known_values))
        return self._handed_out[1]

    def hide(self, value: object) -> object:
        """A value as a caller gets it."""
        return self.handed_out().without_known(value)

    def hide_known(self, outcome: StructuredOutcome) -> StructuredOutcome:
        """The outcome as a caller gets it: a secret that was handed to a skill does not come back through it."""
        if not self._secrets.seen:
            return outcome
        rules = self.handed_out()
        message, details = rules.take_out_known(outcome.message), rules.without_known(outcome.details)
        if message is outcome.message and details is outcome.details:
            return outcome
        return replace(outcome, message=message, details=details if isinstance(details, dict) else None)

    def _encrypt(self, secret: object) -> object:
        assert self._key is not None
        return {"$sealed": encrypt_text(self._key, secret)}

    def decrypt(self, value: object) -> object:
        """What `redact` encrypted, decrypted. Without the key it stays as it is; SecretError for another key.

        What was decrypted is a secret wherever it goes from here, also under a name that says nothing of it.
        """
        if self._key is None:
            return value
        if isinstance(value, dict):
            if is_encrypted(value):
                found = decrypt_text(self._key, value["$sealed"])
                self._opened.update(texts(found))
                return found
            return {key: self.decrypt(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.decrypt(item) for item in value]
        return value

    def opened(self, value: object) -> object:
        """As `decrypt`, for a skill that asks: SkillError where the key is not there."""
        found = self.decrypt(value)
        if has_encrypted(found):
            raise SkillError.of("ERR_SECRET_UNAVAILABLE", f"the value is encrypted; set {KEY_VARIABLE}")
        return found


def texts(value: object) -> Iterator[str]:
    """Every text in a value, without the names of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def encryption_key() -> bytes | None:
    text = os.environ.get(KEY_VARIABLE)
    if not text:
        return None
    if len(text) < SHORTEST_KEY:
        raise SecretError(f"{KEY_VARIABLE} is too short to keep a secret; make one with `openssl rand -base64 32`")
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32, person=b"reenact.seal").digest()


def key_name(key: bytes) -> str:
    """Tells one key from another, and nothing else about it."""
    return blake2b(b"name", key=key, digest_size=4).hexdigest()


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
        raise SecretError(
            f"a value was encrypted with another key ({name[:8]}) than this {KEY_VARIABLE} ({key_name(key)}); "
            "set the one it was encrypted with"
        )
    try:
        data = b64decode(body, validate=True)
        content = ChaCha20Poly1305(key).decrypt(data[:12], data[12:], DOMAIN)
    except (InvalidTag, ValueError):
        raise SecretError(f"an encrypted value does not open with this {KEY_VARIABLE}: it was changed") from None
    return parse_canonical(content, what="encrypted value")
