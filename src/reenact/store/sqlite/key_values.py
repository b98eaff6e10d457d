"""The key-value map that the skill `kv_store` uses. A write that comes again changes nothing, and answers as before."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from reenact.errors import SkillError
from reenact.store.base import Guard
from reenact.store.damage import blob
from reenact.store.sqlite.connection import Connection
from reenact.values.canonical import canonicalize, parse_canonical

Change = Callable[[sqlite3.Connection], object]


class KeyValues:
    """One agent's values; `redact` takes secrets out of them before they are written, `decrypt` opens them."""

    def __init__(self, connection: Connection, agent_id: str, redact: Guard, decrypt: Guard) -> None:
        self._connection = connection
        self._agent_id = agent_id
        self._redact = redact
        self._decrypt = decrypt

    def get(self, namespace: str, key: str) -> Any:
        rows = self._connection.query(
            "SELECT value FROM kv WHERE agent_id = ? AND namespace = ? AND key = ?", (self._agent_id, namespace, key)
        )
        return self._decrypt(parse_canonical(blob(rows[0][0], "kv"))) if rows else None

    def exists(self, namespace: str, key: str) -> bool:
        return self.get(namespace, key) is not None

    def _refuse_secret_names(self, *names: str) -> None:
        """Names stand in the file as they are."""
        for name in names:
            if self._redact(name) != name:
                raise SkillError.of("ERR_VALIDATION_FAILED", "a key or a namespace must not be a secret")

    def set(self, namespace: str, key: str, value: Any, *, idempotency_key: str) -> None:
        self._refuse_secret_names(namespace, key)
        content = canonicalize(self._redact(value))

        def change(db: sqlite3.Connection) -> None:
            self._put(db, namespace, key, content)

        self._once(idempotency_key, change)

    def delete(self, namespace: str, key: str, *, idempotency_key: str) -> bool:
        def change(db: sqlite3.Connection) -> bool:
            cursor = db.execute(
                "DELETE FROM kv WHERE agent_id = ? AND namespace = ? AND key = ?", (self._agent_id, namespace, key)
            )
            return cursor.rowcount > 0

        return bool(self._once(idempotency_key, change))

    def incr(self, namespace: str, key: str, by: int, *, idempotency_key: str) -> int:
        self._refuse_secret_names(namespace, key)

        def change(db: sqlite3.Connection) -> int:
            row = db.execute(
                "SELECT value FROM kv WHERE agent_id = ? AND namespace = ? AND key = ?",
                (self._agent_id, namespace, key),
            ).fetchone()
            current = 0 if row is None else parse_canonical(blob(row[0], "kv"))
            if type(current) is not int:
                raise TypeError("the value under this key is not an integer")
            self._put(db, namespace, key, canonicalize(current + by))
            return current + by

        total = self._once(idempotency_key, change)
        assert isinstance(total, int)
        return total

    def _put(self, db: sqlite3.Connection, namespace: str, key: str, content: bytes) -> None:
        db.execute("INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?)", (self._agent_id, namespace, key, content))

    def _once(self, idempotency_key: str, change: Change) -> object:
        """The change and the memory of it in one transaction."""
        with self._connection.transaction() as db:
            row = db.execute(
                "SELECT result FROM kv_writes WHERE agent_id = ? AND idempotency_key = ?",
                (self._agent_id, idempotency_key),
            ).fetchone()
            if row is not None:
                return parse_canonical(blob(row[0], "kv_writes"))
            result = change(db)
            db.execute(
                "INSERT INTO kv_writes VALUES (?, ?, ?)", (self._agent_id, idempotency_key, msgspec.json.encode(result))
            )
            return result
