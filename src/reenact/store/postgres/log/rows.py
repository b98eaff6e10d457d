"""`reenact.store.log.rows.LogRows` in a database. Every question is answered through a key of its table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from reenact.errors import DamagedRecord, StoreUnavailable
from reenact.store.compression import Codec
from reenact.store.keys.notes import Note
from reenact.store.log.cells import REBUILD, checked, head_of, peer_of
from reenact.store.log.rows import Peer, SealRow, SignedHead
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.signed import notes
from reenact.verify.log.merkle import HASH_BYTES, Node

SEALS = (
    "SELECT s.id, s.run_no, r.run_id, s.seal_digest, c.n, c.body, c.mac FROM :schema.seals s "
    "JOIN :schema.runs r ON r.run_no = s.run_no CROSS JOIN LATERAL (SELECT n, body, mac FROM :schema.commits "
    "WHERE run_no = s.run_no ORDER BY n DESC LIMIT 1) c WHERE s.id > %s ORDER BY s.id LIMIT %s"
)
NODES = (
    "SELECT n.level, n.index, n.hash FROM :schema.log_nodes n JOIN unnest(%s::integer[], %s::bigint[]) AS w (l, i) "
    "ON n.level = w.l AND n.index = w.i"
)
TREE_SIZE = "SELECT max(index) FROM :schema.log_nodes WHERE level = 0"
LOCK = "SELECT 1 FROM :schema.counters WHERE name = 'log' FOR UPDATE"
HEAD = "SELECT size, root, kid, signature FROM :schema.log_checkpoints"
PEER = "SELECT name, kind, url, seen, failures, next_ms, trouble FROM :schema.log_peers"
PUT_PEER = (
    "INSERT INTO :schema.log_peers VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO UPDATE SET "
    "kind = excluded.kind, url = excluded.url, seen = excluded.seen, failures = excluded.failures, "
    "next_ms = excluded.next_ms, trouble = excluded.trouble"
)
COSIGNED = "SELECT size, count(*) FROM :schema.log_cosignatures WHERE size >= %s GROUP BY size ORDER BY size LIMIT 16"
ADD = {
    "cosignature": "INSERT INTO :schema.log_cosignatures (size, witness, line) VALUES (%s, %s, %s)",
    "timestamp": "INSERT INTO :schema.log_timestamps (size, place, stamp) VALUES (%s, %s, %s)",
    "contradiction": "INSERT INTO :schema.log_contradictions (source, note) VALUES (%s, %s)",
}
BATCH = 1000


class PostgresLogRows:
    """`writer` is None where nothing may be written."""

    def __init__(self, reader: Asks, writer: Database | None) -> None:
        self._reader = reader
        self._writer = writer

    def _query(self, sql: str, *values: object) -> list[Any]:
        return self._reader.ask(sql, values)

    # -- the tree --------------------------------------------------------------------------------------------------

    def size(self) -> int:
        ((last,),) = self._query(TREE_SIZE)
        return 0 if last is None else int(last) + 1

    def nodes(self, wanted: Collection[Node]) -> dict[Node, bytes]:
        found, asked = dict[Node, bytes](), list(wanted)
        for first in range(0, len(asked), BATCH):
            part = asked[first : first + BATCH]
            for level, index, node in self._query(NODES, [node[0] for node in part], [node[1] for node in part]):
                if len(node) != HASH_BYTES:
                    place = f"level {level}, index {index}"
                    raise DamagedRecord(f"log_nodes, {place}: a hash has {HASH_BYTES} bytes; {REBUILD}")
                found[level, index] = node
        for level, index in wanted:
            if (level, index) not in found:
                raise DamagedRecord(f"log_nodes has no row for node {index} of level {level}; {REBUILD}")
        return found

    def seals(self, after: int, limit: int) -> list[SealRow]:
        codec = Codec()
        return [
            SealRow(number, run_no, run_id, digest, n, codec.unpack(body), mac)
            for number, run_no, run_id, digest, n, body, mac in self._query(SEALS, after, limit)
        ]

    def digests(self, after: int, limit: int) -> list[tuple[int, str]]:
        return self._query("SELECT id, seal_digest FROM :schema.seals WHERE id > %s ORDER BY id LIMIT %s", after, limit)

    def seal_count(self) -> int:
        ((last,),) = self._query("SELECT max(id) FROM :schema.seals")
        return last or 0

    def seal_digest(self, number: int) -> str | None:
        rows = self._query("SELECT seal_digest FROM :schema.seals WHERE id = %s", number)
        return checked("seals", f"id {number}, seal_digest", rows[0][0], str) if rows else None

    def number_of(self, run_no: int) -> int | None:
        rows = self._query("SELECT id FROM :schema.seals WHERE run_no = %s", run_no)
        return rows[0][0] if rows else None

    # -- heads, and what others said of them -----------------------------------------------------------------------

    def newest(self) -> SignedHead | None:
        return self._head("ORDER BY size DESC LIMIT 1")

    def checkpoint(self, size: int) -> SignedHead | None:
        return self._head("WHERE size = %s", size)

    def covering(self, size: int) -> SignedHead | None:
        return self._head("WHERE size >= %s ORDER BY size LIMIT 1", size)

    def _head(self, where: str, *values: object) -> SignedHead | None:
        rows = self._query(f"{HEAD} {where}", *values)
        return head_of(rows[0]) if rows else None

    def checkpoints(self) -> Iterator[SignedHead]:
        last = -1
        while rows := self._query(f"{HEAD} WHERE size > %s ORDER BY size LIMIT 500", last):
            yield from map(head_of, rows)
            last = rows[-1][0]

    def cosigned(self, size: int) -> list[tuple[int, int]]:
        return self._query(COSIGNED, size)

    def stamped(self, size: int) -> int | None:
        ((found,),) = self._query("SELECT min(size) FROM :schema.log_timestamps WHERE size >= %s", size)
        return None if found is None else int(found)

    def cosignatures(self, size: int) -> list[bytes]:
        rows = self._query("SELECT line FROM :schema.log_cosignatures WHERE size = %s ORDER BY id LIMIT 64", size)
        return [row[0] for row in rows]

    def timestamps(self, size: int) -> list[tuple[str, bytes]]:
        return self._query("SELECT place, stamp FROM :schema.log_timestamps WHERE size = %s ORDER BY id LIMIT 64", size)

    def contradictions(self) -> list[tuple[str, bytes]]:
        return self._query("SELECT source, note FROM :schema.log_contradictions ORDER BY id LIMIT 100")

    def peers(self, kind: str) -> list[Peer]:
        return [peer_of(row) for row in self._query(f"{PEER} WHERE kind = %s ORDER BY name LIMIT 100", kind)]

    def peer(self, name: str) -> Peer | None:
        rows = self._query(f"{PEER} WHERE name = %s", name)
        return peer_of(rows[0]) if rows else None

    def notes_about(self, schema: str, digest: str) -> list[Note]:
        return notes.about(self._reader, schema, digest)

    # -- what is written -------------------------------------------------------------------------------------------

    def _writing(self) -> Database:
        if self._writer is None:
            raise StoreUnavailable("this store is only read here")
        return self._writer

    def grow(self, size: int, nodes: Collection[tuple[Node, bytes]], head: SignedHead | None) -> bool:
        def act(db: Asks) -> bool:
            db.ask(LOCK)
            ((last,),) = db.ask(TREE_SIZE)
            if (0 if last is None else last + 1) != size:
                return False
            levels, indexes, hashes = ([*part] for part in zip(*((*node, value) for node, value in nodes), strict=True))
            sql = "INSERT INTO :schema.log_nodes SELECT * FROM unnest(%s::integer[], %s::bigint[], %b::bytea[])"
            db.ask(sql, (levels, indexes, hashes))
            if head is not None:
                db.ask("INSERT INTO :schema.log_checkpoints VALUES (%s, %s, %s, %s)", head)
            return True

        return self._writing().transact(act)

    def forget_nodes(self) -> None:
        def act(db: Asks) -> None:
            db.ask(LOCK)
            db.ask("DELETE FROM :schema.log_nodes")

        self._writing().transact(act)

    def add_cosignature(self, size: int, witness: str, line: bytes) -> None:
        self._add("cosignature", size, witness, line)

    def add_timestamp(self, size: int, place: str, stamp: bytes) -> None:
        self._add("timestamp", size, place, stamp)

    def add_contradiction(self, source: str, note: bytes) -> None:
        self._add("contradiction", source, note)

    def _add(self, what: str, *values: object) -> None:
        """Nothing where it is there."""
        self._writing().transact(lambda db: db.ask(f"{ADD[what]} ON CONFLICT DO NOTHING", values))

    def put_peer(self, peer: Peer, note: Note | None = None) -> None:
        def act(db: Asks) -> None:
            db.ask(PUT_PEER, peer)
            if note is not None:
                notes.write(db, note)

        self._writing().transact(act)

    def drop_peer(self, name: str) -> bool:
        found: list[object] = []

        def act(db: Asks) -> None:  # what was done by a try of which nobody knew what became of it counts
            found.extend(db.ask("DELETE FROM :schema.log_peers WHERE name = %s RETURNING 1", (name,)))

        self._writing().transact(act)
        return bool(found)
