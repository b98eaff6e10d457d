"""The rows of the key-value map that the skill `kv_store` uses, in a database: `reenact.store.beside.key_values`."""

from __future__ import annotations

import msgspec

from reenact.store.beside.key_values import Change
from reenact.store.postgres.opened.database import Asks, Database
from reenact.values.canonical import parse_canonical

VALUE = "SELECT value FROM :schema.kv WHERE agent_id = %s AND namespace = %s AND key = %s"
REMEMBER = "INSERT INTO :schema.kv_writes VALUES (%s, %s, NULL) ON CONFLICT DO NOTHING RETURNING 1"
REMEMBERED = "SELECT result FROM :schema.kv_writes WHERE agent_id = %s AND idempotency_key = %s"
DONE = "UPDATE :schema.kv_writes SET result = %s WHERE agent_id = %s AND idempotency_key = %s"
LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%s, 2))"
"""Of one value, also while there is none; for as long as the transaction lasts."""


class KeyValueTable:
    """`reenact.store.beside.key_values.KeyValueTable` of one agent."""

    def __init__(self, database: Database, agent_id: str) -> None:
        self._database = database
        self._agent_id = agent_id

    def get(self, namespace: str, key: str) -> bytes | None:
        rows = self._database.ask(VALUE, (self._agent_id, namespace, key))
        return rows[0][0] if rows else None

    def once(self, idempotency_key: str, change: Change) -> object:
        """The change and the memory of it in one transaction; the memory first: it locks out whoever does the same."""
        whose = (self._agent_id, idempotency_key)

        def act(db: Asks) -> object:
            if not db.ask(REMEMBER, whose):
                return parse_canonical(db.ask(REMEMBERED, whose)[0][0])
            result = change(KeyValueRows(db, self._agent_id))
            db.ask(DONE, (msgspec.json.encode(result), *whose))
            return result

        return self._database.transact(act)


class KeyValueRows:
    """`reenact.store.beside.key_values.KeyValueRows` in the transaction that was begun."""

    def __init__(self, db: Asks, agent_id: str) -> None:
        self._db = db
        self._agent_id = agent_id

    def get(self, namespace: str, key: str) -> bytes | None:
        self._lock(namespace, key)
        rows = self._db.ask(VALUE, (self._agent_id, namespace, key))
        return rows[0][0] if rows else None

    def put(self, namespace: str, key: str, content: bytes) -> None:
        self._lock(namespace, key)
        self._db.ask(
            "INSERT INTO :schema.kv VALUES (%s, %s, %s, %s) ON CONFLICT (agent_id, namespace, key) DO UPDATE "
            "SET value = excluded.value",
            (self._agent_id, namespace, key, content),
        )

    def delete(self, namespace: str, key: str) -> bool:
        self._lock(namespace, key)
        return bool(
            self._db.ask(
                "DELETE FROM :schema.kv WHERE agent_id = %s AND namespace = %s AND key = %s RETURNING 1",
                (self._agent_id, namespace, key),
            )
        )

    def _lock(self, namespace: str, key: str) -> None:
        self._db.ask(LOCK, (f"{len(self._agent_id)} {len(namespace)} {self._agent_id} {namespace} {key}",))
