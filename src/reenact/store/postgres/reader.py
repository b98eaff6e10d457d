"""What is read from a PostgreSQL store: runs, their journals and their values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any

from reenact.contracts.records import RunStatus
from reenact.errors import RunNotFound
from reenact.skills.services import KeyValueService
from reenact.store.base import (
    PAYLOAD_BITS,
    Archive,
    BrokenLease,
    Guard,
    KeyRecord,
    LateEffect,
    OpenRun,
    RunRow,
    Tally,
    TraceRow,
)
from reenact.store.beside.idempotency import another_session
from reenact.store.beside.key_values import KeyValues
from reenact.store.postgres import listing
from reenact.store.postgres.identity import Identity
from reenact.store.postgres.listing import RUNS
from reenact.store.postgres.signed import key_rows
from reenact.store.postgres.writing import leases, money, votes
from reenact.store.postgres.writing.contents import Contents
from reenact.store.postgres.writing.key_values import KeyValueTable
from reenact.store.signing import checked_frontier
from reenact.values.clock import Clock

NAMED = (
    "WHERE r.run_no IN (SELECT max(run_no) FROM :schema.runs WHERE session = %s GROUP BY agent_id) ORDER BY r.run_no"
)
"""The newest run of each agent that has a session of this id."""
ARCHIVES = (
    "SELECT a.bundle, a.place, (SELECT count(*) FROM :schema.archived v WHERE v.run_no = a.run_no "
    "AND v.bundle = a.bundle) FROM :schema.archives a WHERE a.run_no = %s ORDER BY a.bundle"
)
SEALED_WITH_VALUES = (
    "SELECT r.run_id FROM :schema.runs r JOIN :schema.seals s ON s.run_no = r.run_no WHERE r.run_id > %s "
    "AND EXISTS (SELECT 1 FROM :schema.payloads p WHERE p.run_no = r.run_no) ORDER BY r.run_id LIMIT 1000"
)
TRACES = (
    "SELECT t.trace_id, r.run_id, t.step_index, t.step_id, t.commit_n FROM :schema.traces t "
    "JOIN :schema.runs r ON r.run_no = t.run_no WHERE"
)
BATCH = 64
BATCH_BYTES = 1 << 20
"""Larger values are read few at a time."""


class PostgresReader(Identity):
    """One store, opened: all that is only read."""

    def __init__(self, url: str, *, clock: Clock | None = None, to_read: bool = False) -> None:
        super().__init__(url, clock=clock, to_read=to_read)
        self.contents = Contents(self.database)

    # -- runs ------------------------------------------------------------------------------------------------------

    def cancel_request(self, run_id: str) -> str | None:
        rows = self.database.ask("SELECT cancel FROM :schema.runs WHERE run_id = %s", (run_id,))
        return rows[0][0] if rows else None

    def pending_votes(self, run_id: str) -> dict[str, bytes]:
        """What was cast about calls of a run that has not ended, by trace id."""
        return votes.of_run(self.database, run_id)

    def find_run(self, prefix: str) -> RunRow:
        """The run whose id starts with `prefix`, or the session of that id; `last` is the newest one."""
        if prefix == "last":
            rows = self.database.ask(f"{RUNS} ORDER BY r.run_no DESC LIMIT 1")
        else:
            rows = self.database.ask(f"{RUNS} {NAMED}", (prefix,))
        if not rows:
            sql = f"{RUNS} WHERE r.run_id >= %s AND r.run_id < %s ORDER BY r.run_id LIMIT 2"
            rows = self.database.ask(sql, (prefix, prefix + "~"))
        if not rows or not prefix:
            raise RunNotFound(f"no run {prefix!r} in {self.url}; `reenact ls` lists what is there")
        if len(rows) > 1:
            raise RunNotFound.several(prefix, [row[0] for row in rows])
        return RunRow(*rows[0])

    def find_session(self, agent_id: str, session: str) -> RunRow | None:
        """The newest run of the session to which this agent's host gave that id."""
        sql = f"{RUNS} WHERE r.session = %s AND r.agent_id = %s ORDER BY r.run_no DESC LIMIT 1"
        rows = self.database.ask(sql, (session, agent_id))
        return RunRow(*rows[0]) if rows else None

    def open_session(self, agent_id: str, session: str) -> RunRow | None:
        """As `find_session`, for whoever goes on with it; NotAuthentic where that is not the run that has the id."""
        assert self.signing_key.kid
        row, run_id = self._session(agent_id, session)
        if run_id != (row and row.run_id):  # somebody may be about to begin it, or to go on with it
            self.database.transact(lambda db: db.ask(key_rows.LOCK))
            row, run_id = self._session(agent_id, session)
            if run_id != (row and row.run_id):
                raise another_session(agent_id, session)
        return row

    def _session(self, agent_id: str, session: str) -> tuple[RunRow | None, str | None]:
        """(as its row has it, the run that a key of ours vouches for)"""
        found = self.find_session(agent_id, session)
        return found, self.idempotency.session_run(key_rows.KeyRows(self.database), agent_id, session)

    def runs(
        self, *, status: tuple[RunStatus, ...] | None = None, limit: int | None = None, before: str | None = None
    ) -> list[RunRow]:
        """The newest first, and of those the ones that began before a run; paged by run number."""
        return listing.listed(self.database, status, limit, before)

    def replays(self, run_id: str) -> list[RunRow]:
        """Runs that have this one as their parent, the newest first."""
        return listing.replays(self.database, run_id)

    def sealed(self, after: int, limit: int) -> list[tuple[int, RunRow]]:
        """(number of its seal, run), in order, behind a number."""
        return listing.sealed(self.database, after, limit)

    def tally(self, name: str) -> Tally | None:
        """What runs add up to, as somebody left it."""
        return listing.tally(self.database, name)

    def unattended(self) -> frozenset[str]:
        """Ids of runs that count as running, and that nobody works on."""
        return leases.unattended(self.database)

    def broken_leases(self, run_id: str) -> list[BrokenLease]:
        """Those of the run that people took from their holders, in order."""
        return leases.broken_leases(self.database, run_id)

    def open_run(self, run_id: str) -> OpenRun | None:
        """Who holds a run; None for one that has ended, or is not there."""
        return leases.open_run(self.database, run_id)

    def free_in_s(self, run_id: str) -> float | None:
        """Seconds until the run's lease ends unless it is renewed; None where there is nothing to wait for."""
        return leases.free_in_s(self.database, run_id)

    def dedupe_key(self, run_id: str) -> bytes:
        rows = self.database.ask("SELECT dedupe_key FROM :schema.runs WHERE run_id = %s", (run_id,))
        if not rows:
            raise RunNotFound(f"no run {run_id} in {self.url}")
        return bytes(rows[0][0])

    # -- journals --------------------------------------------------------------------------------------------------

    def bodies(self, run_id: str, *, after: int = 0, unchecked: bool = False) -> Iterator[bytes]:
        """The run's commit bodies in order, read in small batches, from the commit behind `after` on.

        `unchecked` for whoever knows the head that they lead to.
        """
        run_no, last = self._run_no(run_id), after
        sql = "SELECT n, body, mac FROM :schema.commits WHERE run_no = %s AND n > %s ORDER BY n LIMIT %s"
        while True:
            rows = self.database.ask(sql, (run_no, last, BATCH))
            for n, packed, mac in rows:
                yield self.unpack(packed) if unchecked else self._checked(run_id, n, packed, mac)
                last = n
            if len(rows) < BATCH:
                return

    def body(self, run_id: str, n: int) -> bytes | None:
        sql = "SELECT n, body, mac FROM :schema.commits WHERE run_no = %s AND n = %s"
        rows = self.database.ask(sql, (self._run_no(run_id), n))
        return self._checked(run_id, *rows[0]) if rows else None

    def _checked(self, run_id: str, n: int, packed: bytes, mac: object) -> bytes:
        """The body of a commit, as it was written."""
        body = self.unpack(packed)
        if run_id in self._authenticated:
            self.check_head(run_id, n, sha256(body).hexdigest(), mac)
        return body

    def latest_frontier(self, run_id: str) -> tuple[int, bytes] | None:
        """(commit, frontier) of the run's last run checkpoint, as a key of ours vouched for it."""
        rows = self.database.ask(
            "SELECT n, frontier, mac FROM :schema.run_checkpoints WHERE run_no = %s ORDER BY n DESC LIMIT 1",
            (self._run_no(run_id),),
        )
        if not rows:
            return None
        n, stored, mac = rows[0]
        frontier = checked_frontier(self.key_of, self.store_of(run_id), run_id, n, stored, mac, n)
        return None if frontier is None else (n, frontier)

    def trace(self, trace_id: str, *, run_id: str | None = None) -> TraceRow | None:
        """Where a trace stands."""
        if run_id is None:
            return self._trace("t.trace_id = %s ORDER BY t.run_no, t.step_index LIMIT 1", trace_id)
        return self._trace("t.trace_id = %s AND t.run_no = %s", trace_id, self._run_no(run_id))

    def trace_at(self, run_id: str, step_index: int) -> TraceRow | None:
        return self._trace("t.run_no = %s AND t.step_index = %s", self._run_no(run_id), step_index)

    def step_ids(self, run_id: str) -> list[str]:
        """In request order."""
        sql = "SELECT step_id FROM :schema.traces WHERE run_no = %s ORDER BY step_index"
        return [row[0] for row in self.database.ask(sql, (self._run_no(run_id),))]

    def _trace(self, where: str, *values: object) -> TraceRow | None:
        rows = self.database.ask(f"{TRACES} {where}", values)
        return TraceRow(*rows[0]) if rows else None

    # -- values ----------------------------------------------------------------------------------------------------

    def payload(self, run_id: str, commitment: str, *, near: int | None = None) -> bytes | None:
        """The envelope behind a commitment. `near` is the commit that names it: there it is found at once."""
        run_no, wanted, rows = self._run_no(run_id), bytes.fromhex(commitment), list[Any]()
        stored = "SELECT p.body FROM :schema.payloads p"
        if near is not None:
            rows = self.database.ask(
                f"{stored} WHERE p.run_no = %s AND p.n = %s AND p.commitment = %s LIMIT 1", (run_no, near, wanted)
            )
        if not rows:
            rows = self.database.ask(
                f"{stored} JOIN :schema.shared_payloads s ON s.run_no = p.run_no AND s.n = p.n AND s.k = p.k "
                "WHERE s.run_no = %s AND s.commitment = %s AND p.commitment = %s",
                (run_no, wanted, wanted),
            )
        if not rows:
            rows = self.database.ask(
                f"{stored} WHERE p.run_no = %s AND p.commitment = %s ORDER BY p.n, p.k LIMIT 1", (run_no, wanted)
            )
        return self.envelope(run_no, rows[0][0]) if rows else None

    def payloads(self, run_id: str) -> Iterator[tuple[str, bytes]]:
        run_no, last = self._run_no(run_id), (0, -1)
        sql = (
            "SELECT n, k, commitment, body FROM (SELECT n, k, commitment, body, sum(length(body)) OVER (ORDER BY n, k) "
            "- length(body) AS before FROM (SELECT n, k, commitment, body FROM :schema.payloads WHERE run_no = %s "
            "AND (n, k) > (%s, %s) ORDER BY n, k LIMIT %s) p) q WHERE before < %s ORDER BY n, k"
        )
        while rows := self.database.ask(sql, (run_no, *last, BATCH, BATCH_BYTES)):
            for n, k, commitment, stored in rows:
                yield commitment.hex(), self.envelope(run_no, stored)
                last = (n, k)

    def archives(self, run_id: str) -> list[Archive]:
        """The bundles that values of a run were moved to."""
        rows = self.database.ask("SELECT run_no FROM :schema.runs WHERE run_id = %s", (run_id,))
        return [Archive(*row) for row in self.database.ask(ARCHIVES, rows[0])] if rows else []

    def is_archived(self, run_id: str, commitment: str) -> bool:
        """Whether a value that is not here lies in a bundle."""
        sql = "SELECT 1 FROM :schema.archived WHERE run_no = %s AND commitment = %s LIMIT 1"
        return bool(self.database.ask(sql, (self._run_no(run_id), bytes.fromhex(commitment))))

    def archived_values(self, run_id: str) -> list[str]:
        """Commitments of those that do."""
        sql = "SELECT commitment FROM :schema.archived WHERE run_no = %s ORDER BY n, k"
        return [commitment.hex() for (commitment,) in self.database.ask(sql, (self._run_no(run_id),))]

    def sealed_with_values(self) -> Iterator[str]:
        """Ids of sealed runs that have values here, the oldest first."""
        last = ""
        while rows := self.database.ask(SEALED_WITH_VALUES, (last,)):
            for (last,) in rows:
                yield last

    def find_content(self, run_id: str, content_key: bytes) -> tuple[str, int] | None:
        """(commitment, commit that stored it) of equal content in the run, for content large enough to be indexed."""
        return self.contents.find(run_id, content_key)

    def envelope(self, run_no: int, stored: bytes) -> bytes:
        """An envelope as it was given, whatever rows it has to be put together from."""
        mask = (1 << PAYLOAD_BITS) - 1

        def stored_at(place: int) -> bytes | None:
            sql = "SELECT body FROM :schema.payloads WHERE run_no = %s AND n = %s AND k = %s"
            rows = self.database.ask(sql, (run_no, place >> PAYLOAD_BITS, place & mask))
            return rows[0][0] if rows else None

        return self.put_together(run_no, stored, stored_at)

    # -- beside the journals ---------------------------------------------------------------------------------------

    def spent(self, day: str, agent_id: str) -> dict[str, int]:
        """Picodollars that an agent spent on a day, by model; "" stands for what no model did."""
        return money.spent(self.database, day, agent_id)

    def set_apart(self, day: str, agent_id: str, besides: Collection[str] = ()) -> dict[str, int]:
        """Picodollars, by model, that an agent's calls in flight, but for the traces `besides`, may still cost.

        Only of runs with a limit that other runs count against.
        """
        return money.apart(self.database, day, agent_id, besides)

    def key_record(self, server: str, tool: str, key: str) -> KeyRecord | None:
        """NotAuthentic where the rows cannot tell: one was changed, or taken out."""
        assert self.signing_key.kid
        return self.idempotency.record(key_rows.KeyRows(self.database), (server, tool, key))

    def late_effects(self, run_id: str, trace_id: str) -> list[LateEffect]:
        rows = self.database.ask(
            "SELECT trace_id, body FROM :schema.late_effects WHERE run_no = %s AND trace_id = %s ORDER BY id",
            (self._run_no(run_id), trace_id),
        )
        return [LateEffect(trace_id=row[0], body=row[1]) for row in rows]

    def key_values(self, agent_id: str, redact: Guard, decrypt: Guard) -> KeyValueService:
        """The agent's own key-value map in this store."""
        return KeyValues(KeyValueTable(self.database, agent_id), redact, decrypt)

    def public_keys(self) -> dict[str, str]:
        return self.key_table.on_record()

    def erasures(self) -> list[bytes]:
        """The canonical records of what was erased, in the order of their chain."""
        return [row[0] for row in self.database.ask("SELECT body FROM :schema.erasures ORDER BY id")]
