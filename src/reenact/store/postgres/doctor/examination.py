"""A store in a database as a doctor looks at it: only read, and changed by nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

from reenact.contracts.records import ENDED
from reenact.errors import NotAuthentic, ReenactError
from reenact.store.base import OpenRun
from reenact.store.doctor.examination import LatestTimes
from reenact.store.doctor.findings import Finding, flat
from reenact.store.doctor.keys import KeyPlace, look_at_keys
from reenact.store.keys.here import KeysHere
from reenact.store.log.log import ReadLog
from reenact.store.postgres.doctor.server import look_at_server
from reenact.store.postgres.evidence.evidence import NUMBERS, SNAPSHOT, WAIT_S
from reenact.store.postgres.evidence.guards import alterations
from reenact.store.postgres.evidence.run_evidence import PostgresRunEvidence
from reenact.store.postgres.log.rows import PostgresLogRows
from reenact.store.postgres.opened.database import Link, repeated
from reenact.store.postgres.opened.keys import keys_beside
from reenact.store.postgres.opened.schema import ENCRYPTED_WITH, SAYS, is_there, moved_says, refuse_other_version
from reenact.store.postgres.opened.shared import database_at, leave
from reenact.store.postgres.signed import key_records
from reenact.store.postgres.writing.leases import OPEN_RUN
from reenact.values.clock import SystemClock


class PostgresExamination:
    """`reenact.store.doctor.examination.Examination` of one schema."""

    def __init__(self, url: str) -> None:
        self._database = database_at(url)
        self.name = self._database.place.shown
        self.is_readable = False
        self._opened = ExitStack()
        self._opened.callback(leave, self._database)
        self._link: Link | None = None
        self._store_id: str | None = None
        self._origins = key_records.origins_in({})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    # -- what the engine sees --------------------------------------------------------------------------------------

    def look_from_outside(self) -> tuple[list[Finding], bool]:
        try:
            there = is_there(self._database)
        except ReenactError as error:
            return [Finding("store", "trouble", flat(str(error)))], False
        if not there:
            return [Finding("store", "note", f"{self.name} does not exist", "`reenact run PLAN` makes it")], False
        return [Finding("store", "ok", self.name)], True

    def look_inside(self) -> Iterator[Finding]:
        link = self._opened.enter_context(self._database.reader(wait_s=WAIT_S))
        self._opened.callback(link.drop_transaction)
        repeated(lambda: link.ask(SNAPSHOT))
        self._link = link
        said = dict(link.ask(SAYS))
        refuse_other_version(said, self.name)
        if (says := moved_says(said)) is not None:
            yield Finding("store", "note", flat(says))
        self._store_id, self._origins = said["store_id"], key_records.origins_in(said)
        wrong = list(alterations(link, self._database.place.schema))
        for part in wrong:
            do = "restore a backup" if part.is_of_table else "`reenact verify` the runs that matter, then put it back"
            yield Finding("schema", "trouble" if part.is_of_table else "warning", flat(part.says), do)
        if not wrong:
            yield Finding("schema", "ok", f"version {said['schema']}")
        self.is_readable = not any(part.is_of_table for part in wrong)

    def look_around(self) -> Iterator[Finding]:
        if self._link is None or self._store_id is None:
            return
        yield from look_at_server(self._link, self._database.place.schema)
        place = KeyPlace(keys_beside(self._store_id), self.name)
        lost: dict[str, list[str]] = {}
        try:
            lost = self._lost_keys(self._store_id)
        except NotAuthentic as error:
            yield Finding("key", "trouble", flat(str(error)))
        names = [row[0] for row in self._rows("SELECT key FROM :schema.store WHERE key LIKE 'encrypted_with:%%'")]
        used = [name.removeprefix(ENCRYPTED_WITH) for name in names]
        yield from look_at_keys(
            place, key_records.KeyRecords(self._database, self._store_id, self._origins).on_record(), used, lost
        )

    def _lost_keys(self, store_id: str) -> dict[str, list[str]]:
        """Signing keys that new runs or open ones need and that are not here, with those runs."""
        here = KeysHere(keys_beside(store_id))
        table = key_records.key_table(self._database, store_id, here, SystemClock(), self._origins)
        history, needed = table.history(), dict[str, list[str]]()
        if history.current is not None:
            needed[history.current] = []
        for run in table.needing(history):
            needed.setdefault(run.kid, []).append(run.run_id)
        return {kid: runs for kid, runs in needed.items() if table.here.usable(kid) is None}

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, sql: str, *values: object) -> list[Any]:
        assert self._link is not None, "look inside first"
        return self._link.ask(sql, values)

    def _run(self, run_no: int) -> PostgresRunEvidence:
        assert self._link is not None
        return PostgresRunEvidence(self._link, run_no)

    def newest_runs(self, count: int) -> list[PostgresRunEvidence]:
        rows = self._rows("SELECT run_no FROM :schema.runs ORDER BY run_no DESC LIMIT %s", count)
        return [self._run(row[0]) for row in rows]

    def latest_times(self) -> LatestTimes:
        began = self._rows("SELECT started_at FROM :schema.runs ORDER BY run_no DESC LIMIT 1")
        ((lease,),) = self._rows(f"SELECT max(expires_ms) FROM :schema.runs WHERE status NOT IN {ENDED}")
        return LatestTimes(began[0][0] if began else None, lease)

    def status_counts(self) -> dict[str, int]:
        return dict(self._rows("SELECT status, count(*) FROM :schema.runs GROUP BY status"))

    def open_runs(self) -> list[tuple[PostgresRunEvidence, OpenRun]]:
        rows = self._rows(f"SELECT run_no, {OPEN_RUN} ORDER BY run_no")
        return [(self._run(row[0]), OpenRun(*row[1:])) for row in rows]

    def forgotten_runs(self) -> int:
        ((count,),) = self._rows(
            f"SELECT count(*) FROM ({NUMBERS}) c WHERE NOT EXISTS "
            "(SELECT 1 FROM :schema.runs r WHERE r.run_no = c.found)"
        )
        return int(count)

    def seal_log(self) -> ReadLog:
        assert self._link is not None
        keys = key_records.KeyRecords(self._database, self._store_id or "", self._origins).on_record()
        return ReadLog(PostgresLogRows(self._link, None), self._store_id or "", lambda: keys)

    def unsealed_runs(self) -> list[str]:
        rows = self._rows(
            f"SELECT r.run_id FROM :schema.runs r WHERE r.status IN {ENDED} "
            "AND NOT EXISTS (SELECT 1 FROM :schema.seals s WHERE s.run_no = r.run_no) ORDER BY r.run_no"
        )
        return [row[0] for row in rows]
