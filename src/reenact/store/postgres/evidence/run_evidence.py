"""The rows of one run of a PostgreSQL store: evidence, and what is derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from reenact.store.compression import Codec
from reenact.store.damage import unpacked
from reenact.store.evidence import (
    COMMITS_PER_RUN,
    PAYLOADS_PER_COMMIT,
    CheckpointCells,
    CommitRow,
    ContentCells,
    DamagedCells,
    KeyCells,
    PayloadPlace,
    PayloadRow,
    RunCells,
    SealCells,
    SealPlace,
    SharedCells,
    TraceCells,
)
from reenact.store.postgres.opened.database import Asks

BATCH = 64
LAST_RUN = 1 << 62
KEY_COLUMNS = "server, tool, key, request_digest, agent_id, trace_id, run_no, state, next, mac"
SEALS = "SELECT id, run_no, seal_digest FROM :schema.seals"
COMMITS = "SELECT n, body, digest, mac FROM :schema.commits WHERE run_no = %s"


class PostgresRunEvidence:
    """`reenact.store.evidence.RunEvidence`. A value names what it builds on by its place within the run."""

    def __init__(self, db: Asks, number: int, damaged: DamagedCells | None = None) -> None:
        self.number = number
        self.damaged = DamagedCells() if damaged is None else damaged
        self._db = db
        self._codec = Codec()

    def _query(self, sql: str, *values: object) -> list[Any]:
        return self._db.ask(sql, (self.number, *values))

    def is_there(self) -> bool:
        if not 0 <= self.number < LAST_RUN:
            return False
        return bool(self._query("SELECT 1 FROM :schema.commits WHERE run_no = %s LIMIT 1"))

    # -- evidence --------------------------------------------------------------------------------------------------

    def commits(self) -> Iterator[CommitRow]:
        last = 0
        while rows := self._query(f"{COMMITS} AND n > %s ORDER BY n LIMIT {BATCH}", last):
            for row in rows:
                yield self._commit(*row)
                last = row[0]

    def last_commit(self) -> CommitRow | None:
        rows = self._query(f"{COMMITS} ORDER BY n DESC LIMIT 1")
        return self._commit(*rows[0]) if rows else None

    def _commit(self, n: int, stored: bytes, digest: bytes, mac: object) -> CommitRow:
        body = unpacked(self._codec.unpack, stored)
        if isinstance(body, str):
            return CommitRow(n, None, body)
        return CommitRow(n, body, stored=stored, same=sha256(body).digest() == digest, mac=mac)

    def payload_places(self) -> list[tuple[PayloadPlace, str]]:
        rows = self._query("SELECT n, k, commitment FROM :schema.payloads WHERE run_no = %s ORDER BY n, k")
        return [(PayloadPlace(self._place(n, k)), commitment.hex()) for n, k, commitment in rows]

    def payloads(self) -> Iterator[PayloadRow]:
        sql = (
            "SELECT n, k, commitment, body FROM :schema.payloads WHERE run_no = %s AND (n, k) > (%s, %s) "
            f"ORDER BY n, k LIMIT {BATCH}"
        )
        last = (0, -1)
        while rows := self._query(sql, *last):
            for n, k, commitment, stored in rows:
                yield PayloadRow(PayloadPlace(self._place(n, k)), commitment, stored)
                last = (n, k)

    def stored(self, payload_id: int) -> bytes | None:
        place = PayloadPlace(payload_id)
        number = place.run_no or self.number  # what builds on another of its run names that one without the run
        if place.run_no >= LAST_RUN:
            return None
        sql = "SELECT body FROM :schema.payloads WHERE run_no = %s AND n = %s AND k = %s"
        rows = self._db.ask(sql, (number, place.n, place.k))
        return rows[0][0] if rows else None

    def _place(self, n: int, k: int) -> int:
        return (self.number * COMMITS_PER_RUN + n) * PAYLOADS_PER_COMMIT + k

    # -- what is derived -------------------------------------------------------------------------------------------

    def run_row(self) -> RunCells | None:
        rows = self._query(f"SELECT {', '.join(RunCells._fields)} FROM :schema.runs WHERE run_no = %s")
        return RunCells(*rows[0]) if rows else None

    def traces(self) -> list[TraceCells]:
        rows = self._query("SELECT step_index, trace_id, step_id, commit_n FROM :schema.traces WHERE run_no = %s")
        return [TraceCells(*row) for row in rows]

    def shared_payloads(self) -> list[SharedCells]:
        rows = self._query("SELECT commitment, n, k FROM :schema.shared_payloads WHERE run_no = %s")
        return [SharedCells(commitment, self._place(n, k)) for commitment, n, k in rows]

    def contents(self) -> list[ContentCells]:
        rows = self._query("SELECT content_key, n, k, commitment FROM :schema.contents WHERE run_no = %s")
        return [ContentCells(key, self._place(n, k), commitment) for key, n, k, commitment in rows]

    def keyed_calls(self) -> list[KeyCells]:
        rows = self._query(f"SELECT {KEY_COLUMNS} FROM :schema.idempotency WHERE run_no = %s ORDER BY 1, 2, 3")
        return [KeyCells(*row) for row in rows]

    def run_checkpoints(self) -> list[CheckpointCells]:
        rows = self._query("SELECT n, frontier, mac FROM :schema.run_checkpoints WHERE run_no = %s ORDER BY n")
        return [CheckpointCells(n, self.number * COMMITS_PER_RUN + n, frontier, mac) for n, frontier, mac in rows]

    def seal_place(self) -> SealPlace | None:
        """Its neighbours alone are read: that none is missing before it is seen by theirs."""
        rows = self._query(f"{SEALS} WHERE run_no = %s")
        if not rows:
            return None
        own = SealCells(*rows[0])
        before = self._db.ask(f"{SEALS} WHERE id < %s ORDER BY id DESC LIMIT 1", (own.number,))
        after = self._db.ask(f"{SEALS} WHERE id > %s ORDER BY id LIMIT 1", (own.number,))
        position = 1 if not before else before[0][0] + 1
        return SealPlace(
            own, position, SealCells(*before[0]) if before else None, SealCells(*after[0]) if after else None
        )
