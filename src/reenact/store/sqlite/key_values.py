"""The rows of the key-value map that the skill `kv_store` uses, in a store file: `reenact.store.beside.key_values`."""

from __future__ import annotations

import sqlite3

import msgspec

from reenact.store.base import Guard
from reenact.store.beside.key_values import Change, KeyValues
from reenact.store.damage import blob
from reenact.store.sqlite.connection import Connection
from reenact.values.canonical import parse_canonical

VALUE = "SELECT value FROM kv WHERE agent_id = ? AND namespace = ? AND key = ?"


def key_values(connection: Connection, agent_id: str, redact: Guard, decrypt: Guard) -> KeyValues:
    """One agent's values in a store file."""
    return KeyValues(SqliteKeyValueTable(connection, agent_id), redact, decrypt)


class SqliteKeyValueTable:
    """`reenact.store.beside.key_values.KeyValueTable` of one agent."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    def get(self, namespace: str, key: str) -> bytes | None:
        rows = self._connection.query(VALUE, (self._agent_id, namespace, key))
        return blob(rows[0][0], "kv") if rows else None

    def once(self, idempotency_key: str, change: Change) -> object:
        """The change and the memory of it in one transaction."""
        with self._connection.transaction() as db:
            row = db.execute(
                "SELECT result FROM kv_writes WHERE agent_id = ? AND idempotency_key = ?",
                (self._agent_id, idempotency_key),
            ).fetchone()
            if row is not None:
                return parse_canonical(blob(row[0], "kv_writes"))
            result = change(SqliteKeyValueRows(db, self._agent_id))
            db.execute(
                "INSERT INTO kv_writes VALUES (?, ?, ?)", (self._agent_id, idempotency_key, msgspec.json.encode(result))
            )
            return result


class SqliteKeyValueRows:
    """`reenact.store.beside.key_values.KeyValueRows` in the transaction that was begun."""

    def __init__(self, db: sqlite3.Connection, agent_id: str) -> None:
        self._db = db
        self._agent_id = agent_id

    def get(self, namespace: str, key: str) -> bytes | None:
        row = self._db.execute(VALUE, (self._agent_id, namespace, key)).fetchone()
        return None if row is None else blob(row[0], "kv")

    def put(self, namespace: str, key: str, content: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?)", (self._agent_id, namespace, key, content))

    def delete(self, namespace: str, key: str) -> bool:
        whose = (self._agent_id, namespace, key)
        return self._db.execute("DELETE FROM kv WHERE agent_id = ? AND namespace = ? AND key = ?", whose).rowcount > 0
