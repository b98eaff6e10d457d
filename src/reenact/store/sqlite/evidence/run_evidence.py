"""The rows of one run of an SQLite store: evidence, and what is derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from reenact.store.damage import NO_BLOB, unpacked
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
from reenact.store.sqlite.connection import Connection

BATCH = 64
LAST_ROW = 1 << 62
KEY_COLUMNS = "server, tool, key, request_digest, agent_id, trace_id, run_no, state, next, mac"
SEAL_COLUMNS = "SELECT id, run_no, seal_digest FROM seals"


class SqliteRunEvidence:
    """`reenact.store.evidence.RunEvidence`: the number of a run is its `run_no`, and begins the ids of its rows."""

    def __init__(self, connection: Connection, number: int, damaged: DamagedCells) -> None:
        self.number = number
        self.damaged = damaged
        self._connection = connection
        self._low = number * COMMITS_PER_RUN
        self._bounds = (self._low, self._low + COMMITS_PER_RUN)

    def _query(self, sql: str, parameters: tuple[object, ...]) -> list[Any]:
        return self._connection.query(sql, parameters)

    def is_there(self) -> bool:
        if not 0 <= self._low < LAST_ROW:
            return False
        return bool(self._query("SELECT 1 FROM commits WHERE id > ? AND id < ? LIMIT 1", self._bounds))

    # -- evidence --------------------------------------------------------------------------------------------------

    def commits(self) -> Iterator[CommitRow]:
        last, end = self._bounds
        while rows := self._query(
            f"SELECT id, body, digest, mac FROM commits WHERE id > ? AND id < ? ORDER BY id LIMIT {BATCH}", (last, end)
        ):
            for row_id, stored, digest, mac in rows:
                yield self._commit(row_id - self._low, stored, digest, mac)
                last = row_id

    def last_commit(self) -> CommitRow | None:
        rows = self._query(
            "SELECT id, body, digest, mac FROM commits WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1", self._bounds
        )
        return self._commit(rows[0][0] - self._low, *rows[0][1:]) if rows else None

    def _commit(self, n: int, stored: object, digest: object, mac: object) -> CommitRow:
        if not isinstance(stored, bytes):
            return CommitRow(n, None, NO_BLOB)
        body = unpacked(self._connection.codec.unpack, stored)
        if isinstance(body, str):
            return CommitRow(n, None, body)
        return CommitRow(n, body, stored=stored, same=sha256(body).digest() == digest, mac=mac)

    def payload_places(self) -> list[tuple[PayloadPlace, str]]:
        low, end = self._bounds
        rows = self._query(
            "SELECT id, commitment FROM payloads WHERE id >= ? AND id < ? ORDER BY id",
            (low * PAYLOADS_PER_COMMIT, end * PAYLOADS_PER_COMMIT),
        )
        found = []
        for row_id, kept in rows:
            place = PayloadPlace(row_id)
            if isinstance(kept, bytes):
                found.append((place, kept.hex()))
            else:
                self.damaged.add("payloads", place.row, "commitment", NO_BLOB, place.n)
        return found

    def payloads(self) -> Iterator[PayloadRow]:
        last, end = self._low * PAYLOADS_PER_COMMIT - 1, self._bounds[1] * PAYLOADS_PER_COMMIT
        while rows := self._query(
            f"SELECT id, commitment, body FROM payloads WHERE id > ? AND id < ? ORDER BY id LIMIT {BATCH}", (last, end)
        ):
            for row_id, commitment, stored in rows:
                yield PayloadRow(PayloadPlace(row_id), commitment, stored)
                last = row_id

    def stored(self, payload_id: int) -> bytes | None:
        rows = self._query("SELECT body FROM payloads WHERE id = ?", (payload_id,))
        if not rows:
            return None
        if not isinstance(rows[0][0], bytes):
            place = PayloadPlace(payload_id)
            self.damaged.add("payloads", place.row, "body", NO_BLOB, place.n)
            return None
        return bytes(rows[0][0])

    # -- what is derived -------------------------------------------------------------------------------------------

    def run_row(self) -> RunCells | None:
        rows = self._query(f"SELECT {', '.join(RunCells._fields)} FROM runs WHERE run_no = ?", (self.number,))
        return RunCells(*rows[0]) if rows else None

    def traces(self) -> list[TraceCells]:
        rows = self._query("SELECT id, trace_id, step_id, commit_n FROM traces WHERE id >= ? AND id < ?", self._bounds)
        return [TraceCells(row[0] - self._low, *row[1:]) for row in rows]

    def shared_payloads(self) -> list[SharedCells]:
        rows = self._query("SELECT commitment, payload_id FROM shared_payloads WHERE run_no = ?", (self.number,))
        return [SharedCells(*row) for row in rows]

    def contents(self) -> list[ContentCells]:
        rows = self._query("SELECT content_key, payload_id, commitment FROM contents WHERE run_no = ?", (self.number,))
        return [ContentCells(*row) for row in rows]

    def keyed_calls(self) -> list[KeyCells]:
        rows = self._query(f"SELECT {KEY_COLUMNS} FROM idempotency WHERE run_no = ?", (self.number,))
        return [KeyCells(*row) for row in rows]

    def run_checkpoints(self) -> list[CheckpointCells]:
        rows = self._query(
            "SELECT id, frontier, mac FROM run_checkpoints WHERE id >= ? AND id < ? ORDER BY id", self._bounds
        )
        return [CheckpointCells(row_id - self._low, row_id, frontier, mac) for row_id, frontier, mac in rows]

    def seal_place(self) -> SealPlace | None:
        rows = self._query(f"{SEAL_COLUMNS} WHERE run_no = ?", (self.number,))
        if not rows:
            return None
        own = SealCells(*rows[0])
        ((position,),) = self._query("SELECT count(*) FROM seals WHERE id <= ?", (own.number,))
        before = self._query(f"{SEAL_COLUMNS} WHERE id < ? ORDER BY id DESC LIMIT 1", (own.number,))
        after = self._query(f"{SEAL_COLUMNS} WHERE id > ? ORDER BY id LIMIT 1", (own.number,))
        return SealPlace(
            own, position, SealCells(*before[0]) if before else None, SealCells(*after[0]) if after else None
        )
