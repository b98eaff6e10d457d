"""The evidence of a PostgreSQL store, read in one snapshot."""

from __future__ import annotations

from contextlib import ExitStack
from functools import lru_cache
from typing import Any, Self

from reenact.store.copying.origins import COPIED, Origins, read_origins
from reenact.store.evidence import DamagedCells, ErasureRow, KeyCells, LateRow
from reenact.store.keys.here import KeysHere
from reenact.store.naming import read_lines
from reenact.store.postgres.evidence.guards import Alteration, alterations
from reenact.store.postgres.evidence.run_evidence import KEY_COLUMNS, PostgresRunEvidence
from reenact.store.postgres.log.rows import PostgresLogRows
from reenact.store.postgres.opened.database import Database, Link, repeated
from reenact.store.postgres.opened.keys import keys_beside
from reenact.store.postgres.opened.schema import open_schema
from reenact.store.postgres.opened.shared import database_at, leave
from reenact.store.postgres.signed.notes import COLUMNS
from reenact.store.signing import KeyOf
from reenact.values.clock import SystemClock
from reenact.verify.report import Where
from reenact.verify.signed.notes import NoteRow

NAMED = (
    "SELECT run_no, run_id FROM :schema.runs WHERE run_no IN (SELECT max(run_no) FROM :schema.runs WHERE session = %s "
    "GROUP BY agent_id) ORDER BY run_no"
)
NUMBERS = (
    "WITH RECURSIVE number (found) AS (SELECT min(run_no) FROM :schema.commits UNION ALL "
    "SELECT (SELECT min(c.run_no) FROM :schema.commits c WHERE c.run_no > number.found) FROM number "
    "WHERE number.found IS NOT NULL) SELECT found FROM number WHERE found IS NOT NULL"
)
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WAIT_S = 5.0
TRIP_S = 60.0
"""No lease hangs on what is verified or exported, and a snapshot that is lost is not taken again: it may take long."""


class PostgresEvidence:
    """`reenact.store.evidence.Evidence` on one connection, in a transaction that whoever opened it began."""

    def __init__(self, link: Link, key_of: KeyOf, opened: ExitStack, altered: tuple[Alteration, ...]) -> None:
        self._link = link
        self._opened = opened
        self._altered = altered
        self.damaged = DamagedCells()
        self.key_of = key_of

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def _query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return self._link.ask(sql, parameters)

    # -- which run -------------------------------------------------------------------------------------------------

    def run(self, number: int) -> PostgresRunEvidence:
        return PostgresRunEvidence(self._link, number, self.damaged)

    def named_runs(self, prefix: str) -> list[tuple[int, str]]:
        if prefix == "last":
            return self._query("SELECT run_no, run_id FROM :schema.runs ORDER BY run_no DESC LIMIT 1")
        if not prefix:
            return []
        return self._query(NAMED, (prefix,)) or self._query(
            "SELECT run_no, run_id FROM :schema.runs WHERE run_id >= %s AND run_id < %s ORDER BY run_id LIMIT 2",
            (prefix, prefix + "~"),
        )

    def run_numbers(self) -> list[int]:
        return [row[0] for row in self._query(NUMBERS)]

    # -- rows of the whole store -----------------------------------------------------------------------------------

    def erasures(self) -> list[ErasureRow]:
        return [ErasureRow(*row) for row in self._query("SELECT id, run_no, body FROM :schema.erasures ORDER BY id")]

    def late_effects(self) -> list[LateRow]:
        rows = self._query("SELECT id, run_no, trace_id, body FROM :schema.late_effects ORDER BY id")
        return [LateRow(*row) for row in rows]

    def keys(self) -> dict[str, str]:
        return dict(self._query("SELECT kid, public_key FROM :schema.keys ORDER BY kid"))

    def notes(self) -> PostgresNotes:
        return PostgresNotes(self._link)

    def log_rows(self) -> PostgresLogRows:
        return PostgresLogRows(self._link, None)

    def vouched_from(self) -> int | None:
        rows = self._query(
            "SELECT record FROM :schema.notes WHERE schema = 'reenact.heads.v1' AND record IS NOT NULL "
            "ORDER BY id LIMIT 1"
        )
        said = next(read_lines(rows[0][0]), {}).get("last_run") if rows else None
        return said + 1 if isinstance(said, int) else 1  # there was never a commit without a MAC

    def store_id(self) -> str | None:
        rows = self._query("SELECT value FROM :schema.store WHERE key = 'store_id'")
        return rows[0][0] if rows else None

    def origins(self) -> Origins:
        rows = self._query("SELECT value FROM :schema.store WHERE key = %s", (COPIED,))
        return read_origins(rows[0][0] if rows else None)

    def key_secret(self) -> bytes | None:
        """None also for who may not read it."""
        ((may,),) = self._query("SELECT has_table_privilege(':schema.key_secret', 'SELECT')")
        rows = self._query("SELECT secret FROM :schema.key_secret") if may else []
        return rows[0][0] if rows else None

    def keyed_call(self, server: str, tool: str, key: str) -> KeyCells | None:
        sql = f"SELECT {KEY_COLUMNS} FROM :schema.idempotency WHERE server = %s AND tool = %s AND key = %s"
        rows = self._query(sql, (server, tool, key)) if "\0" not in server + tool + key else []
        return KeyCells(*rows[0]) if rows else None

    def altered_tables(self) -> list[tuple[str, str]]:
        return [(part.name, part.says) for part in self._altered if part.is_of_table]

    def altered_guards(self) -> list[str]:
        return [part.says for part in self._altered if not part.is_of_table]


class PostgresNotes:
    """`reenact.verify.signed.notes.NoteSource`: those that were asked for, and no others."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def with_records(self) -> list[NoteRow]:
        return self._rows("record IS NOT NULL")

    def about(self, digest: str, /) -> list[NoteRow]:
        return self._rows("digest = %s", digest) if "\0" not in digest else []

    def _rows(self, where: str, *values: object) -> list[NoteRow]:
        rows = self._link.ask(f"SELECT id, {COLUMNS} FROM :schema.notes WHERE {where} ORDER BY id", values)
        return [NoteRow(Where(file="notes", row=f"id {row[0]}"), *row[1:]) for row in rows]


def open_evidence(url: str, opened: Database | None = None, key_of: KeyOf | None = None) -> PostgresEvidence:
    """What lies in a store. Nothing of it is run, and nothing written."""
    with ExitStack() as stack:
        database = opened
        if database is None:
            database = database_at(url)
            stack.callback(leave, database)
        said = {} if key_of is not None else open_schema(database, SystemClock(), to_read=True)
        link = stack.enter_context(database.reader(wait_s=WAIT_S, trip_s=TRIP_S))
        stack.callback(link.drop_transaction)
        repeated(lambda: link.ask(SNAPSHOT))
        known = key_of or KeysHere(keys_beside(said["store_id"])).usable
        altered = tuple(alterations(link, database.place.schema))
        return PostgresEvidence(link, lru_cache(known), stack.pop_all(), altered)
