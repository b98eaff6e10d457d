"""A note is one signed text: written with what it signs, never changed, and nobody else's."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from reenact.errors import StoreError
from reenact.store.keys.notes import is_signed_note, note_text, sign_note
from reenact.store.sqlite.signed import notes
from reenact.store.sqlite.store import SqliteStore

SCHEMA, DIGEST = "reenact.vote.v1", sha256(b"a vote").hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(str(tmp_path / "store.db"))


def test_what_is_signed_is_schema_store_and_digest() -> None:
    assert note_text(SCHEMA, "id", DIGEST) == f"reenact.vote.v1\nid\n{DIGEST}\n".encode()


def test_a_note_is_read_as_it_was_written_and_holds_for_its_record_alone(store: SqliteStore) -> None:
    note = sign_note(store.signing_key, SCHEMA, store.store_id, DIGEST, b"{}")
    with store._writer.transaction() as db:
        notes.write(db, note)
    (read,) = notes.of_kind(store._writer, SCHEMA)
    assert read == note
    assert is_signed_note(store.public_keys(), read)
    other = sha256(b"another").hexdigest()
    for forged in (
        read._replace(digest=other),
        read._replace(store_id="other"),
        read._replace(schema="reenact.seal.v1"),
        read._replace(kid="0" * 16),
        read._replace(signature=bytes(64)),
        read._replace(signature=b""),
    ):
        assert not is_signed_note(store.public_keys(), forged)


def test_a_note_goes_with_the_transaction_that_fails(store: SqliteStore) -> None:
    key = store.signing_key
    with pytest.raises(RuntimeError), store._writer.transaction() as db:
        notes.write(db, sign_note(key, SCHEMA, store.store_id, DIGEST, b"{}"))
        raise RuntimeError
    assert notes.of_kind(store._writer, SCHEMA) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE notes SET digest = 'x'",
        "DELETE FROM notes",
        "INSERT OR REPLACE INTO notes SELECT id, schema, store_id, digest, 'x', signature, record FROM notes",
    ],
)
def test_notes_are_append_only(store: SqliteStore, change: str) -> None:
    note = sign_note(store.signing_key, SCHEMA, store.store_id, DIGEST)
    with store._writer.transaction() as db:
        notes.write(db, note)
    with pytest.raises(StoreError, match="append-only"), store._writer.transaction() as db:
        db.execute(change)
