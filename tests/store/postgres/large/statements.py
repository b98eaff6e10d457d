"""What is sent to a server, how it would do it, and how many rows it read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from reenact.store.postgres.opened.database import Parameters, Wire
from reenact.store.postgres.opened.url import place_of

MANY = 1000
"""Rows of a table that nobody reads whole."""
READ = (
    "SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE schemaname = %s)::integer, "
    "(SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE schemaname = %s)::integer"
)
LARGE = (
    "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind = 'r' AND c.reltuples > %s"
)
STILL = "SELECT pid, state, query FROM pg_stat_activity WHERE pid = ANY(%s)"
NOT_EXPLAINED = ("BEGIN", "COMMIT", "ROLLBACK", "LOCK", "VACUUM", "SET")


class Statements:
    """Those that a process sends while it is watched, each once."""

    def __init__(self, url: str) -> None:
        place = place_of(url)
        self._schema = place.schema
        self._db = psycopg.connect(place.conninfo, autocommit=True)
        self._large = {row[0] for row in self._db.execute(LARGE, (self._schema, MANY))}
        self._wires: dict[int, Wire] = {}
        """By the process that serves it."""
        self.sent: dict[str, Parameters | None] = {}
        self.rows = 0
        """Read meanwhile, of tables and of indexes."""

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def watched(self) -> Iterator[None]:
        execute = Wire.execute

        def noted(wire: Wire, text: Any, parameters: Any = None, **more: Any) -> Any:
            self._wires[wire.info.backend_pid] = wire
            self.sent.setdefault(text, parameters)
            return execute(wire, text, parameters, **more)

        before = self._read()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Wire, "execute", noted)
            yield
        self.rows = self._read() - before

    def _read(self) -> int:
        """What connections have read is told when they have ended."""
        for wire in self._wires.values():
            wire.pgconn.finish()
        until = time.monotonic() + 10
        while others := self._db.execute(STILL, (list(self._wires),)).fetchall():
            assert time.monotonic() < until, f"these stay connected: {others}"
            time.sleep(0.005)
        self._wires.clear()
        self._db.execute("SELECT pg_stat_clear_snapshot()")
        (read,) = self._db.execute(READ, (self._schema, self._schema)).fetchall()
        return int(sum(read))

    def scans(self) -> Iterator[str]:
        """Statements that read a large table from its first row to its last."""
        for text, parameters in self.sent.items():
            if not text.startswith(NOT_EXPLAINED):
                explained = self._db.execute(f"EXPLAIN (FORMAT JSON) {text}", parameters, binary=bool(parameters))
                ((plans,),) = explained.fetchall()
                for plan in plans:
                    yield from (f"{table}: {text}" for table in self._scanned(plan["Plan"]))

    def _scanned(self, node: dict[str, Any]) -> Iterator[str]:
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in self._large:
            yield node["Relation Name"]
        for part in node.get("Plans", ()):
            yield from self._scanned(part)
