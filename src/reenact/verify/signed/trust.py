"""Who is trusted for what: the reader's own list of public keys. docs/spec/trusted_keys.md."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from reenact.errors import UsageError
from reenact.verify.capability import PURPOSES, from_base64url
from reenact.verify.signed.signed_note import ED25519, VerifierKey, read_vkey

KEY_NAME: Final = "reenact/"
"""Before a store's id: the name under which its keys sign notes, and the origin of its log."""
MAX_BYTES: Final = 1 << 20
LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """One line. `name` is the reader's own word for who has the key; None where he gave none."""

    public_key: str
    """32 bytes in base64url."""
    name: str | None = None
    purposes: frozenset[str] = frozenset(PURPOSES)
    store_id: str | None = None
    """The one store whose word it is; None for whatever it signs."""

    @property
    def kid(self) -> str:
        raw = from_base64url(self.public_key) or b""
        return sha256(raw).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Trust:
    """The keys that a reader trusts. With `only` no other counts; else others count as keys that nobody vouched for."""

    keys: tuple[TrustedKey, ...] = ()
    only: bool = False
    by_kid: dict[str, str] = field(default_factory=dict)
    """Given as {kid: key}: they are checked against their kids where they are used."""

    @classmethod
    def of(cls, keys: Trust | Mapping[str, str] | None) -> Trust:
        """What a caller gave: a list of trust, {kid: key} for keys of which all is believed, or nothing."""
        if isinstance(keys, Trust):
            return keys
        return cls() if keys is None else cls(only=True, by_kid=dict(keys))

    def of_store(self, store_id: object) -> dict[str, TrustedKey]:
        """By kid: those that may sign for this store."""
        found = {kid: TrustedKey(key) for kid, key in self.by_kid.items()}
        for key in self.keys:
            if key.store_id in (None, store_id):
                found.setdefault(key.kid, key)
        return found

    def of_any(self) -> dict[str, list[TrustedKey]]:
        """By kid: those that may sign for some store, first those that `of_store` takes first."""
        found = {kid: [TrustedKey(key)] for kid, key in self.by_kid.items()}
        for key in self.keys:
            found.setdefault(key.kid, []).append(key)
        return found


def key_name(store_id: str) -> str:
    """The name under which the keys of a store sign."""
    return f"{KEY_NAME}{store_id}"


def verifier_key(store_id: str, public_key: str) -> VerifierKey:
    """A store's key as other programs take it."""
    return VerifierKey(key_name(store_id), ED25519, from_base64url(public_key) or b"")


def read_trust(data: bytes, source: str, *, only: bool = False) -> Trust:
    """A file of lines `NAME  PURPOSES  KEY`; UsageError with the number of the first that is none."""
    if len(data) > MAX_BYTES:
        raise UsageError(f"{source}: a list of trusted keys has at most {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{source}, line {number}: this is not UTF-8") from None
    keys: dict[tuple[str, str | None], tuple[int, TrustedKey]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        said = line.strip(" \t\r")
        if not said or said.startswith("#"):
            continue
        try:
            key = read_trusted(said)
            refuse_second(keys.values(), key)
        except UsageError as error:
            raise UsageError(f"{source}, line {number}: {error}") from None
        keys[key.public_key, key.store_id] = (number, key)
    return Trust(tuple(key for _, key in keys.values()), only)


def refuse_second(before: Iterable[tuple[int, TrustedKey]], key: TrustedKey) -> None:
    for number, other in before:
        if other.public_key == key.public_key and (
            other.store_id == key.store_id or None in (other.store_id, key.store_id)
        ):
            raise UsageError(f"the key {key.kid} stands in line {number} already")


def read_trusted(line: str) -> TrustedKey:
    """`acme billing  seals,capabilities  reenact/…+…+…`"""
    said, _, key = line.replace("\t", " ").strip(" ").rpartition(" ")
    name, _, purposes = said.rstrip(" ").rpartition(" ")
    name = name.rstrip(" ")
    if not name:
        raise UsageError("a line is NAME  PURPOSES  KEY, as in `acme billing  seals,capabilities  reenact/…+…+…`")
    refuse_name(name)
    return replace(read_public(key), name=name, purposes=read_purposes(purposes))


def refuse_name(name: str) -> None:
    if not name.isprintable() or len(name) > LONGEST_NAME or "  " in name or name != name.strip() or not name:
        raise UsageError(f"a name has 1 to {LONGEST_NAME} printable characters, and single spaces between its words")
    if name.startswith("#"):
        raise UsageError("a name does not begin with #")


def read_purposes(text: str) -> frozenset[str]:
    given = text.split(",")
    unknown = [each for each in given if each not in PURPOSES]
    if unknown:
        raise UsageError(
            f"a key is trusted for {', '.join(PURPOSES)}, joined by commas; {unknown[0]!r} is none of them"
        )
    if len(set(given)) != len(given):
        raise UsageError("a purpose stands there twice")
    return frozenset(given)


def read_public(text: str) -> TrustedKey:
    """A verifier key, for its store alone, or 32 bytes in base64url, for every store that it signs for."""
    if "+" not in text:
        raw = from_base64url(text)
        if raw is None or len(raw) != 32:
            raise UsageError(
                "a key is a verifier key, NAME+ID+BASE64, or the 43 characters of a public key in base64url"
            )
        return TrustedKey(text)
    key = read_vkey(text)
    if key.kind != ED25519:
        raise UsageError(f"the verifier key is of kind {key.kind}; a store signs with Ed25519, kind {ED25519}")
    store_id = key.name.removeprefix(KEY_NAME)
    if store_id in ("", key.name):
        raise UsageError(f"the name of a store's verifier key is {KEY_NAME} and the store's id, not {key.name!r}")
    return TrustedKey(urlsafe_b64encode(key.public_key).rstrip(b"=").decode(), store_id=store_id)


def trusted_line(key: TrustedKey) -> str:
    """A line that is read as this key."""
    purposes = ",".join(each for each in PURPOSES if each in key.purposes)
    text = key.public_key if key.store_id is None else str(verifier_key(key.store_id, key.public_key))
    return f"{key.name}  {purposes}  {text}"
