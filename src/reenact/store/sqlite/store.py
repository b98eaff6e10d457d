"""The embedded store: one SQLite file in WAL mode, `synchronous=FULL`, one row per commit and run."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import count

from reenact.contracts.records import RunStatus
from reenact.errors import DamagedRecord, ReenactError, StoreGone
from reenact.store.base import Appended, Archiving, BrokenLease, Erasing, LateEffect, Lease, Tally, Unit
from reenact.store.keys.notes import Note, NotesTogether, sign_note
from reenact.store.log.follower import Follower
from reenact.store.log.log import Log
from reenact.store.log.rows import SealRow
from reenact.store.owner import Held, Watch
from reenact.store.signing import SignFirst
from reenact.store.sqlite import archiving as archiving_rows
from reenact.store.sqlite import leases, votes
from reenact.store.sqlite.appending import Appender
from reenact.store.sqlite.connection import OwnCommits
from reenact.store.sqlite.erasing import empty_log, erase
from reenact.store.sqlite.listed import tallies
from reenact.store.sqlite.log.rows import SqliteLogRows
from reenact.store.sqlite.reader import SqliteReader
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS, translate
from reenact.values.clock import Clock

WATCH_S = 0.25
"""How long the files of a store may be gone before nothing more is sent on their word."""


def held(lease: Lease) -> Held:
    """A lease as others see it. One's own is watched too, from its first moment on."""
    return Held(lease.owner, lease.token, lease.expires_ms)


class SqliteStore(SqliteReader):
    """`reenact.store.base.Store` on one file. Safe to use from several threads and processes.

    `to_read` opens it also where nothing can be written; what then tries to write raises `StoreUnavailable`.
    """

    def __init__(self, url: str | None = None, *, clock: Clock | None = None, to_read: bool = False) -> None:
        super().__init__(url, clock=clock, to_read=to_read)
        self._look_at = math.inf if self.in_memory or to_read else -math.inf
        """From when on, on the monotonic clock, its files are looked after again."""
        self._own_commits = OwnCommits(self.path)
        self._watch = Watch(self.clock)
        self._appender = Appender(
            self._writer, self.clock, self.store_id, lambda: self.signing_key, self.key_of, self.idempotency
        )
        rows = SqliteLogRows(self._reader(), None if to_read else self._writer)
        self.log = Log(
            rows,
            self.store_id,
            self.public_keys,
            lambda: self.signing_key,
            self._check_sealed,
            lambda: self.key_table.history().keys,
        )
        self._follower = Follower(self.log.advance)

    def watch(self) -> None:
        """StoreGone where the files of the store are there no more: asked before all that is sent, and all too often.

        So they are looked after only now and then. Whatever ends or gives back a run looks at once.
        """
        now = self.clock.monotonic()
        if now >= self._look_at:
            self._look()
            self._look_at = now + WATCH_S

    def _look(self) -> None:
        self._writer.check_files()
        if self._own_commits.are_lost():
            raise StoreGone(self._writer.files.lost(""))

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, unit: Unit, lease: Lease | None, *, owner: str = "") -> Appended:
        """One commit of one run, durable when this returns."""
        if self._key is None:
            self._prepare_key()
        if lease is None:
            self.authenticate(unit.run_id)
        self.watch()
        for tries in count(1):
            try:
                with self._writer:
                    done = self._appender.append(unit, lease, owner)
                break
            except SignFirst as first:
                first.sign(tries)
        self._written(unit, lease, done)
        if unit.seal is not None:
            self._sealed([done])
        return done

    def append_many(self, units: list[tuple[Unit, Lease | None, str]]) -> list[Appended | Exception]:
        """Several runs in one transaction. A unit that is refused is taken out; the others are not rolled back."""
        if self._key is None:
            self._prepare_key()
        for unit, lease, _ in units:
            if lease is None:
                self.authenticate(unit.run_id)
        self.watch()
        for tries in count(1):
            try:
                results = self._append_many(units)
                break
            except SignFirst as first:
                first.sign(tries)
        for (unit, lease, _), done in zip(units, results, strict=True):
            if isinstance(done, Appended):
                self._written(unit, lease, done)
        if any(unit.seal is not None for unit, _, _ in units):
            self._sealed(results)
        return results

    def _written(self, unit: Unit, lease: Lease | None, done: Appended) -> None:
        self._own_commits.add(unit.run_id, unit.n, done.head)
        if lease is None:
            self._watch.left_s(unit.run_id, held(done.lease))

    def _append_many(self, units: list[tuple[Unit, Lease | None, str]]) -> list[Appended | Exception]:
        results: list[Appended | Exception] = []
        db = self._writer.cursor
        with self._writer:
            for unit, lease, owner in units:
                db.execute("SAVEPOINT unit")
                try:
                    results.append(self._appender.append(unit, lease, owner))
                except ReenactError as refusal:
                    db.execute("ROLLBACK TO unit")
                    results.append(refusal)
                except DATABASE_ERRORS as error:
                    refused = translate(error, self.path)
                    if not isinstance(error, sqlite3.IntegrityError) and not isinstance(refused, DamagedRecord):
                        raise  # the disk's, or the file's: everybody's
                    db.execute("ROLLBACK TO unit")
                    results.append(refused)
                db.execute("RELEASE unit")
        return results

    def _prepare_key(self) -> None:
        """To make the store's key is a transaction of its own; to authenticate a commit with it is not."""
        assert self.signing_key.kid

    # -- the log ---------------------------------------------------------------------------------------------------

    def _sealed(self, results: Sequence[Appended | Exception]) -> None:
        """Runs have ended, and are durable: the log follows on its own."""
        self._look()
        if not self.in_memory:
            for done in results:
                if isinstance(done, Appended) and done.seal is not None:
                    self.log.hear(done.seal)
            self._follower.tell()

    def _check_sealed(self, row: SealRow) -> None:
        """NotAuthentic where a key of ours did not vouch for the commit that a seal ends, and should have."""
        kid = row.mac[:8].hex() if isinstance(row.mac, bytes) else ""
        if (row.mac is None and row.run_no < self._strict_from) or (kid and self.key_of(kid) is None):
            return  # of before, or of a key that is not here: `verify` tells of both
        self.check_head(row.run_id, row.n, sha256(row.body).hexdigest(), row.mac)

    def close(self) -> None:
        self._follower.close()
        super().close()

    # -- leases ----------------------------------------------------------------------------------------------------

    def acquire(self, run_id: str, owner: str) -> Lease:
        """The run's lease, when it is free, or its holder is gone or was seen not to renew it for as long as it lasts.

        LockAcquireFailed where somebody has it, which says who.
        NotAuthentic where its head is not what a key of ours vouched for, KeyUnavailable where that key is not here.
        """
        self.refuse_copied(run_id)
        assert self.signing_key.kid  # also what was written before heads were authenticated is by now
        lease = leases.acquire(self._writer, run_id, owner, self.clock, self.check_head, self._watch)
        self._watch.left_s(run_id, held(lease))
        self.authenticate(run_id)
        return lease

    def renew(self, held: list[Lease]) -> list[Lease]:
        """Heartbeat: the leases that still hold, with their new ends. One that was lost is not among them."""
        return leases.renew(self._writer, held, self.clock)

    def release(self, lease: Lease, status: RunStatus | None = None) -> None:
        """Only the owner releases; a lease that was taken over is left alone."""
        leases.release(self._writer, lease, status)
        self._authenticated.discard(lease.run_id)
        self._watch.forget(lease.run_id)

    def free_in_s(self, run_id: str) -> float | None:
        """Seconds until it is known whether whoever holds the run lives; None where there is nothing to wait for."""
        return leases.free_in_s(self._reader(), run_id, self.clock, self._watch)

    def break_lease(self, run_id: str, *, who: str, reason: str) -> BrokenLease | None:
        """Take a run from whoever holds it, on record; None where nobody does. What he writes next is refused."""
        key = self.signing_key
        self.refuse_copied(run_id)

        def sign(record: bytes) -> Note:
            return sign_note(key, leases.BROKEN, self.store_id, sha256(record).hexdigest(), record)

        return leases.break_lease(self._writer, run_id, who, reason, self.clock.timestamp(), sign)

    def request_cancel(self, run_id: str, note: str) -> None:
        """Whoever works on the run learns of it with the next commit."""
        self.refuse_copied(run_id)
        with self._writer.transaction() as db:
            db.execute("UPDATE runs SET cancel = ? WHERE run_id = ?", (note, run_id))

    def cast_vote(
        self, run_id: str, trace_id: str, body: bytes, *, settles: bool, replaces: bytes | None = None
    ) -> bool:
        """A person's word for whoever holds the run; False when there is another about this call, or the run has ended.

        `replaces` is one that was heard.
        """
        return votes.put_in(self._writer, run_id, trace_id, body, settles=settles, replaces=replaces)

    def pending_votes(self, run_id: str) -> dict[str, bytes]:
        """What was cast about calls of a run that has not ended, by trace id."""
        return votes.of_run(self._reader(), run_id)

    # -- beside the journal ----------------------------------------------------------------------------------------

    def add_late_effect(self, run_id: str, late: LateEffect) -> None:
        run_no = self._run_no(run_id)
        with self._writer.transaction() as db:
            db.execute(
                "INSERT INTO late_effects (run_no, trace_id, body) VALUES (?, ?, ?)", (run_no, late.trace_id, late.body)
            )

    def erase(self, erasing: Erasing) -> int:
        """Take values out, each with its record, signed, in one transaction; how many are gone."""
        self.refuse_copied(erasing.run_id)
        ts = self.clock.timestamp()
        return self._with_notes(lambda signed: erase(self._writer, erasing, ts, signed, self.idempotency))

    def archive(self, archiving: Archiving) -> int:
        """Take values out that lie in a bundle, each with its record, signed, in one transaction; how many."""
        self.refuse_copied(archiving.run_id)
        ts = self.clock.timestamp()
        return self._with_notes(lambda signed: archiving_rows.archive(self._writer, archiving, ts, signed))

    def _with_notes(self, transaction: Callable[[NotesTogether], int]) -> int:
        """Begun again where a command has to sign first: others write meanwhile."""
        signed = NotesTogether(self.signing_key, self.store_id)
        for tries in count(1):
            try:
                return transaction(signed)
            except SignFirst as first:
                first.sign(tries)
        raise AssertionError("it is tried until it is done")

    def restore(self, run_id: str, envelopes: Iterable[tuple[str, bytes]]) -> int:
        """Put archived values back where they lay, in one transaction; how many."""
        return archiving_rows.restore(self._writer, run_id, envelopes)

    def tally(self, name: str) -> Tally | None:
        """What runs add up to, as somebody left it."""
        return tallies.tally(self._reader(), name)

    def keep_tally(self, name: str, tally: Tally) -> bool:
        """Leave what runs add up to; False where somebody has counted as far."""
        return tallies.keep(self._writer, name, tally)

    def scrub(self) -> None:
        """Rid the file of what erased values left behind beside their rows; StoreBusy while a reader is in the way."""
        empty_log(self._writer)
