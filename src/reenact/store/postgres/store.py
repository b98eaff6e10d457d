"""The store for many machines: commits in a schema of a PostgreSQL database, leases by the server's clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

from reenact.contracts.records import RunStatus
from reenact.store.base import Appended, Archiving, BrokenLease, Erasing, LateEffect, Lease, Tally, Unit
from reenact.store.evidence import Evidence
from reenact.store.keys.notes import Note, sign_note
from reenact.store.log.follower import Follower
from reenact.store.log.log import Log
from reenact.store.log.rows import SealRow
from reenact.store.postgres import listing
from reenact.store.postgres.evidence.evidence import open_evidence
from reenact.store.postgres.log.rows import PostgresLogRows
from reenact.store.postgres.opened.partitions import Partitions
from reenact.store.postgres.reader import PostgresReader
from reenact.store.postgres.writing import erasing as erasing_rows
from reenact.store.postgres.writing import leases, votes
from reenact.store.postgres.writing.appending import Appender
from reenact.store.postgres.writing.groups import Work
from reenact.values.clock import Clock


class PostgresStore(PostgresReader):
    """`reenact.store.base.Store` in one schema of a database. Safe to use from any number of threads and processes.

    `to_read` opens it also for who may write nothing, and on a replica.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, to_read: bool = False) -> None:
        super().__init__(url, clock=clock, to_read=to_read)
        self._appender = Appender(self.database, self.clock, self.store_id, lambda: self.signing_key, self.key_of)
        self._partitions = Partitions(self.database)
        self.log = Log(
            PostgresLogRows(self.database, None if to_read else self.database),
            self.store_id,
            self.public_keys,
            lambda: self.signing_key,
            self._check_sealed,
            lambda: self.key_table.history().keys,
        )
        self._follower = Follower(self.log.advance)

    def watch(self) -> None:
        """There is one server: what is written to it says when it is gone."""

    def unkept(self, _run_id: str, traces: Collection[str], /) -> list[str]:
        """Steps that were sent, and whose record lies nowhere that anybody could read."""
        return list(traces)

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, unit: Unit, lease: Lease | None, *, owner: str = "") -> Appended:
        """One commit of one run, durable when this returns."""
        (done,) = self.append_many([(unit, lease, owner)])
        if isinstance(done, Exception):
            raise done
        return done

    def append_many(self, units: list[Work]) -> list[Appended | Exception]:
        """Several runs at once. A unit that is refused is taken out; the others are not rolled back."""
        assert self.signing_key.kid
        for unit, lease, _ in units:
            if lease is None:
                self.authenticate(unit.run_id)
        results = self._appender.append(units)
        for (unit, lease, _), done in zip(units, results, strict=True):
            if isinstance(done, Appended):
                if lease is None:
                    self.hear_clock(done.lease)
                    self.contents.hold(unit.run_id, is_new=True)
                    self._partitions.keep_ahead()
                self.contents.written(unit)
        self._sealed(results)
        return results

    def _sealed(self, results: Sequence[Appended | Exception]) -> None:
        """Where runs have ended, and are durable, the log follows on its own."""
        seals = [done.seal for done in results if isinstance(done, Appended) and done.seal is not None]
        for seal in seals:
            self.log.hear(seal)
        if seals:
            self._follower.tell()

    def _check_sealed(self, row: SealRow) -> None:
        """NotAuthentic where a key of ours did not vouch for the commit that a seal ends, and should have."""
        if isinstance(row.mac, bytes) and self.key_of(row.mac[:8].hex()) is None:
            return  # of a key that is not here: `verify` tells of it
        self.check_head(row.run_id, row.n, sha256(row.body).hexdigest(), row.mac)

    def close(self) -> None:
        self._follower.close()
        self._leave()

    # -- leases ----------------------------------------------------------------------------------------------------

    def acquire(self, run_id: str, owner: str) -> Lease:
        """The run's lease, when it is free, or its holder is gone or has not renewed it by the server's clock.

        LockAcquireFailed where somebody has it, which says who.
        NotAuthentic where its head is not what a key of ours vouched for, KeyUnavailable where that key is not here.
        """
        assert self.signing_key.kid
        self.refuse_copied(run_id)
        lease = leases.acquire(self.database, run_id, owner, self.clock, self.check_head)
        self.authenticate(run_id)
        self.contents.hold(run_id)
        self.hear_clock(lease)
        return lease

    def renew(self, held: list[Lease]) -> list[Lease]:
        """Heartbeat: the leases that still hold, with their new ends. One that was lost is not among them."""
        kept = leases.renew(self.database, held, self.clock)
        for lease in kept[:1]:
            self.hear_clock(lease)
        return kept

    def release(self, lease: Lease, status: RunStatus | None = None) -> None:
        """Only the owner releases; a lease that was taken over is left alone."""
        self.contents.let_go(lease.run_id)
        leases.release(self.database, lease, status)
        self._authenticated.discard(lease.run_id)

    def break_lease(self, run_id: str, *, who: str, reason: str) -> BrokenLease | None:
        """Take a run from whoever holds it, on record; None where nobody does. What he writes next is refused."""
        key = self.signing_key
        self.refuse_copied(run_id)

        def sign(record: bytes) -> Note:
            return sign_note(key, leases.BROKEN, self.store_id, sha256(record).hexdigest(), record)

        return leases.break_lease(self.database, run_id, who, reason, self.clock.timestamp(), sign)

    def request_cancel(self, run_id: str, note: str) -> None:
        """Whoever works on the run learns of it with the next commit."""
        self.refuse_copied(run_id)
        sql = "UPDATE :schema.runs SET cancel = %s WHERE run_id = %s"
        self.database.transact(lambda db: db.ask(sql, (note, run_id)))

    def cast_vote(
        self, run_id: str, trace_id: str, body: bytes, *, settles: bool, replaces: bytes | None = None
    ) -> bool:
        """A person's word for whoever holds the run; False when there is another about this call, or the run has ended.

        `replaces` is one that was heard.
        """
        return self.database.transact(
            lambda db: votes.put_in(db, run_id, trace_id, body, settles=settles, replaces=replaces)
        )

    # -- beside the journal ----------------------------------------------------------------------------------------

    def add_late_effect(self, run_id: str, late: LateEffect) -> None:
        values = (self._run_no(run_id), late.trace_id, late.body)
        sql = "SELECT :schema.add_late_effect_1(%s::bigint, %s, %s)"
        self.database.call(sql, values, size=len(late.body))

    def erase(self, erasing: Erasing) -> int:
        """Take values out, each with its record, signed, in one transaction; how many are gone."""
        self.refuse_copied(erasing.run_id)
        return erasing_rows.erase(self.database, erasing, self.clock, self._signs(), self.idempotency)

    def archive(self, archiving: Archiving) -> int:
        """Take values out that lie in a bundle, each with its record, signed, in one transaction; how many."""
        self.refuse_copied(archiving.run_id)
        return erasing_rows.archive(self.database, archiving, self.clock, self._signs())

    def restore(self, run_id: str, envelopes: Iterable[tuple[str, bytes]]) -> int:
        """Put archived values back where they lay, in one transaction; how many."""
        return erasing_rows.restore(self.database, run_id, envelopes)

    def _signs(self) -> erasing_rows.Sign:
        key = self.signing_key
        return lambda schema, digest: sign_note(key, schema, self.store_id, digest)

    def keep_tally(self, name: str, tally: Tally) -> bool:
        """Leave what runs add up to; False where somebody has counted as far."""
        return listing.keep(self.database, name, tally)

    def scrub(self) -> None:
        """Rid the tables of what erased values left behind, where this role may."""
        self._partitions.vacuum()

    def evidence(self) -> Evidence:
        """What lies in it, in one snapshot of its own."""
        return open_evidence(self.url, self.database, self.key_of)
