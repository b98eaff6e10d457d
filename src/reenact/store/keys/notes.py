"""Notes: what a key of the store signed beside the journal. docs/spec/store_sqlite.md.

A note is written in the transaction of what it signs: `sign_note` makes it, `sqlite.signed.notes.write` puts it there.
A note says nothing of its own: whatever must not be changed, the time too, stands in the
record whose digest it signs. Notes are never erased, so that digest must not be one by which a value can be guessed.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reenact.store.signing import SigningKey


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
