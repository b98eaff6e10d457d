"""`reenact.store.log.rows.LogRows` in one SQLite file. Every question is answered through a key of its table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from reenact.errors import DamagedRecord, StoreUnavailable
from reenact.store.keys.notes import Note
from reenact.store.log.cells import REBUILD, checked, head_of, peer_of
from reenact.store.log.rows import Peer, SealRow, SignedHead
from reenact.store.sqlite.connection import Connection, Reads
from reenact.store.sqlite.signed import notes
from reenact.verify.log.merkle import HASH_BYTES, Node

LEVEL_BITS = 48
SEALS = (
    "SELECT s.id, s.run_no, r.run_id, s.seal_digest, c.id & 16777215, c.body, c.mac FROM seals s "
    "JOIN runs r ON r.run_no = s.run_no JOIN commits c ON c.id = (SELECT max(id) FROM commits "
    "WHERE id > s.run_no << 24 AND id < (s.run_no + 1) << 24) WHERE s.id > ? ORDER BY s.id LIMIT ?"
)
TREE_SIZE = f"SELECT max(id) FROM log_nodes WHERE id < {1 << LEVEL_BITS}"
HEAD = "SELECT size, root, kid, signature FROM log_checkpoints"
PEER = "SELECT name, kind, url, seen, failures, next_ms, trouble FROM log_peers"
COSIGNED = "SELECT size, count(*) FROM log_cosignatures WHERE size >= ? GROUP BY size ORDER BY size LIMIT 16"
BATCH = 400
"""Values in one statement."""


class SqliteLogRows:
    """`writer` is None where nothing may be written."""

    def __init__(self, reader: Reads, writer: Connection | None) -> None:
        self._reader = reader
        self._writer = writer

    def _query(self, sql: str, *values: object) -> list[Any]:
        return self._reader.query(sql, values)

    # -- the tree --------------------------------------------------------------------------------------------------

    def size(self) -> int:
        ((last,),) = self._query(TREE_SIZE)
        return 0 if last is None else checked("log_nodes", "id", last, int) + 1

    def nodes(self, wanted: Collection[Node]) -> dict[Node, bytes]:
        found, ids = {}, [level << LEVEL_BITS | index for level, index in wanted]
        for first in range(0, len(ids), BATCH):
            part = ids[first : first + BATCH]
            for row_id, node in self._query(
                f"SELECT id, hash FROM log_nodes WHERE id IN ({', '.join('?' * len(part))})", *part
            ):
                if len(checked("log_nodes", f"id {row_id}, hash", node, bytes)) != HASH_BYTES:
                    raise DamagedRecord(f"log_nodes, id {row_id}: a hash has {HASH_BYTES} bytes; {REBUILD}")
                found[row_id >> LEVEL_BITS, row_id & (1 << LEVEL_BITS) - 1] = node
        for level, index in wanted:
            if (level, index) not in found:
                raise DamagedRecord(f"log_nodes has no row for node {index} of level {level}; {REBUILD}")
        return found

    def seals(self, after: int, limit: int) -> list[SealRow]:
        rows = []
        for number, run_no, run_id, digest, n, body, mac in self._query(SEALS, after, limit):
            row = f"id {number}"
            rows.append(
                SealRow(
                    number,
                    checked("seals", f"{row}, run_no", run_no, int),
                    checked("runs", f"run_no {run_no}, run_id", run_id, str),
                    checked("seals", f"{row}, seal_digest", digest, str),
                    n,
                    self._reader.unpack(checked("commits", f"{row}, body", body, bytes)),
                    mac,
                )
            )
        return rows

    def digests(self, after: int, limit: int) -> list[tuple[int, str]]:
        rows = self._query("SELECT id, seal_digest FROM seals WHERE id > ? ORDER BY id LIMIT ?", after, limit)
        return [(number, checked("seals", f"id {number}, seal_digest", digest, str)) for number, digest in rows]

    def seal_count(self) -> int:
        ((last,),) = self._query("SELECT max(id) FROM seals")
        return last or 0

    def seal_digest(self, number: int) -> str | None:
        rows = self._query("SELECT seal_digest FROM seals WHERE id = ?", number)
        return checked("seals", f"id {number}, seal_digest", rows[0][0], str) if rows else None

    def number_of(self, run_no: int) -> int | None:
        rows = self._query("SELECT id FROM seals WHERE run_no = ?", run_no)
        return rows[0][0] if rows else None

    # -- heads, and what others said of them -----------------------------------------------------------------------

    def newest(self) -> SignedHead | None:
        return self._head("WHERE size = (SELECT max(size) FROM log_checkpoints)")

    def checkpoint(self, size: int) -> SignedHead | None:
        return self._head("WHERE size = ?", size)

    def covering(self, size: int) -> SignedHead | None:
        return self._head("WHERE size >= ? ORDER BY size LIMIT 1", size)

    def _head(self, where: str, *values: object) -> SignedHead | None:
        rows = self._query(f"{HEAD} {where}", *values)
        return head_of(rows[0]) if rows else None

    def checkpoints(self) -> Iterator[SignedHead]:
        last = -1
        while rows := self._query(f"{HEAD} WHERE size > ? ORDER BY size LIMIT 500", last):
            yield from map(head_of, rows)
            last = rows[-1][0]

    def cosigned(self, size: int) -> list[tuple[int, int]]:
        return [(checked("log_cosignatures", "size", row[0], int), row[1]) for row in self._query(COSIGNED, size)]

    def stamped(self, size: int) -> int | None:
        ((found,),) = self._query("SELECT min(size) FROM log_timestamps WHERE size >= ?", size)
        return None if found is None else checked("log_timestamps", "size", found, int)

    def cosignatures(self, size: int) -> list[bytes]:
        rows = self._query("SELECT line FROM log_cosignatures WHERE size = ? ORDER BY id LIMIT 64", size)
        return [checked("log_cosignatures", f"size {size}, line", row[0], bytes) for row in rows]

    def timestamps(self, size: int) -> list[tuple[str, bytes]]:
        rows = self._query("SELECT place, stamp FROM log_timestamps WHERE size = ? ORDER BY id LIMIT 64", size)
        return [
            (checked("log_timestamps", "place", place, str), checked("log_timestamps", "stamp", stamp, bytes))
            for place, stamp in rows
        ]

    def contradictions(self) -> list[tuple[str, bytes]]:
        rows = self._query("SELECT source, note FROM log_contradictions ORDER BY id LIMIT 100")
        return [
            (checked("log_contradictions", "source", source, str), checked("log_contradictions", "note", note, bytes))
            for source, note in rows
        ]

    def peers(self, kind: str) -> list[Peer]:
        return [peer_of(row) for row in self._query(f"{PEER} WHERE kind = ? ORDER BY name LIMIT 100", kind)]

    def peer(self, name: str) -> Peer | None:
        rows = self._query(f"{PEER} WHERE name = ?", name)
        return peer_of(rows[0]) if rows else None

    def notes_about(self, schema: str, digest: str) -> list[Note]:
        return notes.about(self._reader, schema, digest)

    # -- what is written -------------------------------------------------------------------------------------------

    def _transaction(self) -> Connection:
        if self._writer is None:
            raise StoreUnavailable("this store is only read here")
        return self._writer.transaction()

    def grow(self, size: int, nodes: Collection[tuple[Node, bytes]], head: SignedHead | None) -> bool:
        with self._transaction() as db:
            ((last,),) = db.execute(TREE_SIZE).fetchall()
            if (0 if last is None else last + 1) != size:
                return False
            rows = [(level << LEVEL_BITS | index, node) for (level, index), node in nodes]
            db.executemany("INSERT INTO log_nodes VALUES (?, ?)", rows)
            if head is not None:
                db.execute("INSERT INTO log_checkpoints VALUES (?, ?, ?, ?)", head)
        return True

    def forget_nodes(self) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM log_nodes")

    def add_cosignature(self, size: int, witness: str, line: bytes) -> None:
        with self._transaction() as db:
            if not db.execute(
                "SELECT 1 FROM log_cosignatures WHERE size = ? AND witness = ?", (size, witness)
            ).fetchall():
                db.execute("INSERT INTO log_cosignatures (size, witness, line) VALUES (?, ?, ?)", (size, witness, line))

    def add_timestamp(self, size: int, place: str, stamp: bytes) -> None:
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM log_timestamps WHERE size = ? AND place = ?", (size, place)).fetchall():
                db.execute("INSERT INTO log_timestamps (size, place, stamp) VALUES (?, ?, ?)", (size, place, stamp))

    def add_contradiction(self, source: str, note: bytes) -> None:
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM log_contradictions WHERE note = ?", (note,)).fetchall():
                db.execute("INSERT INTO log_contradictions (source, note) VALUES (?, ?)", (source, note))

    def put_peer(self, peer: Peer, note: Note | None = None) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO log_peers VALUES (?, ?, ?, ?, ?, ?, ?)", peer)
            if note is not None:
                notes.write(db, note)

    def drop_peer(self, name: str) -> bool:
        with self._transaction() as db:
            return db.execute("DELETE FROM log_peers WHERE name = ?", (name,)).rowcount > 0
