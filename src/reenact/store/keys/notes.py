"""Notes: what a key of the store signed beside the journal. docs/spec/store_sqlite.md.

A note is written in the transaction of what it signs: `sign_note` makes it, `sqlite.signed.notes.write` puts it there.
A note says nothing of its own: whatever must not be changed, the time too, stands in the
record whose digest it signs. Notes are never erased, so that digest must not be one by which a value can be guessed.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.store.signing import SignFirst, SigningKey

MOST_TRIES: Final = 20
"""Of signing what belongs together before its transaction, where others are faster each time."""


class Note(NamedTuple):
    """One signature: `schema` says of what kind of record, `digest` (64 hex digits) of which."""

    schema: str
    store_id: str
    digest: str
    kid: str
    signature: bytes
    record: bytes | None = None
    """The signed record as canonical JSON, where no other table has it."""


def note_text(schema: str, store_id: str, digest: str) -> bytes:
    """What is signed."""
    return f"{schema}\n{store_id}\n{digest}\n".encode()


def sign_note(key: SigningKey, schema: str, store_id: str, digest: str, record: bytes | None = None) -> Note:
    """The note about the record of this schema (`reenact.vote.v1`) and digest."""
    return Note(schema, store_id, digest, key.kid, key.sign(note_text(schema, store_id, digest)), record)


def sign_at_once(key: SigningKey, schema: str, store_id: str, digest: str, record: bytes | None = None) -> Note:
    """The same inside a transaction that its caller can begin again; SignFirst where the key is a command's."""
    return Note(schema, store_id, digest, key.kid, key.sign_at_once(note_text(schema, store_id, digest)), record)


class NotesTogether:
    """The notes of one transaction, which its caller can begin again. Where a command signs, all of them are signed
    before it: `settle`, at its end, raises SignFirst as long as one is not."""

    def __init__(self, key: SigningKey, store_id: str) -> None:
        self._key = key
        self._store_id = store_id
        self._signed: dict[bytes, bytes] = {}
        self._wanted: list[bytes] = []
        self._tries = 0

    def note(self, schema: str, digest: str) -> Note:
        """Of a record in the transaction; without its signature where that is rolled back."""
        text = note_text(schema, self._store_id, digest)
        return Note(schema, self._store_id, digest, self._key.kid, self._signature(text))

    def settle(self) -> None:
        if self._wanted:
            raise SignFirst(self._sign_all)

    def _signature(self, text: bytes) -> bytes:
        if text not in self._signed:
            try:
                return self._key.sign(text) if self._tries >= MOST_TRIES else self._key.sign_at_once(text)
            except SignFirst:
                self._wanted.append(text)
        return self._signed.get(text, bytes(64))

    def _sign_all(self, tries: int) -> None:
        self._tries = tries
        self._signed = {text: self._key.sign(text) for text in self._wanted}
        self._wanted = []


def is_signed_note(public_keys: Mapping[str, str], note: Note) -> bool:
    """Whether the key that the note names is one of these, and signed it."""
    text = public_keys.get(note.kid)
    if text is None:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(text + "="))
        key.verify(note.signature, note_text(note.schema, note.store_id, note.digest))
    except (InvalidSignature, ValueError):
        return False
    return True
