"""Who may write to a run, by the server's clock: the lease in its row; and whether the run is what was left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from reenact.contracts.records import ENDED, RunStatus
from reenact.errors import DamagedRecord, LockAcquireFailed, NotAuthentic, RunNotFound, StoreVersionError
from reenact.store.base import LEASE_MS, BrokenLease, Lease, OpenRun
from reenact.store.compression import Codec
from reenact.store.damage import refuse_cut_tail, refuse_other_body
from reenact.store.keys.notes import Note
from reenact.store.owner import is_stopped, owner_is_gone, process_of
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.opened.schema import CLIENT
from reenact.store.postgres.signed import notes
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock, say_ts

BROKEN: Final = "reenact.lease_broken.v1"
OPEN_RUN = f"run_id, kind, status, owner, expires_ms, token FROM :schema.runs WHERE status NOT IN {ENDED}"
HELD = (
    "SELECT run_no, owner, token, expires_ms, cancel, :schema.now_ms(), "
    "(SELECT value::integer FROM :schema.store WHERE key = 'oldest_client') "
    "FROM :schema.runs WHERE run_id = %s FOR NO KEY UPDATE"
)
TAKE = (
    "UPDATE :schema.runs SET owner = %s, token = %s, expires_ms = :schema.now_ms() + %s WHERE run_no = %s "
    "RETURNING expires_ms"
)
KNOWN = (
    "SELECT coalesce((SELECT max(n) FROM :schema.commits WHERE run_no = %(no)s), 0), "
    "greatest((SELECT commit_n FROM :schema.traces WHERE run_no = %(no)s ORDER BY step_index DESC LIMIT 1), "
    "(SELECT max(n) FROM :schema.payloads WHERE run_no = %(no)s), 0)"
)
RELEASE = (
    "UPDATE :schema.runs r SET owner = NULL, expires_ms = 0, status = coalesce(%s, status) FROM :schema.begin_1() b "
    "WHERE r.run_id = %s AND r.token = %s AND r.owner = %s"
)
RENEW = "SELECT i, busy, expires_ms, cancel FROM :schema.renew_1(%s::text[], %s::bigint[], %s::text[], %s::bigint)"
CheckHead = Callable[[str, int, str, object], str]
"""(run id, commit, digest of its body, the MAC beside it) → kid; raises where it is not authentic."""


class Taken(NamedTuple):
    """A try to take a run, so that the same one is known again."""

    owner: str
    tokens: set[int]
    """With which this try may have taken it, when nobody knows."""


def acquire(database: Database, run_id: str, owner: str, clock: Clock, check_head: CheckHead) -> Lease:
    """The run's lease, when it is free, or its holder is gone or has not renewed it by the server's clock."""
    tried = Taken(owner, set())
    return database.transact(lambda db: taken(db, run_id, tried, clock, check_head))


def taken(db: Asks, run_id: str, tried: Taken, clock: Clock, check_head: CheckHead) -> Lease:
    until = clock.monotonic() + LEASE_MS / 1000  # before anything is asked
    rows = db.ask(HELD, (run_id,))
    if not rows:
        raise RunNotFound(f"no run {run_id} in this store")
    run_no, holder, token, expires, cancel, now, oldest = rows[0]
    if oldest is not None and oldest > CLIENT:
        raise StoreVersionError("this store is written to by newer versions of reenact alone: upgrade reenact")
    kid = refuse_other_tail(db, run_id, run_no, check_head)
    if holder == tried.owner and token in tried.tokens:
        return Lease(run_id, tried.owner, token, expires, cancel, kid, until)
    if holder is not None and now < expires and not owner_is_gone(holder):
        raise in_other_hands(run_id, holder, expires, now)
    tried.tokens.add(token + 1)
    ((expires,),) = db.ask(TAKE, (tried.owner, token + 1, LEASE_MS, run_no))
    return Lease(run_id, tried.owner, token + 1, expires, cancel, kid, until)


def refuse_other_tail(db: Asks, run_id: str, run_no: int, check_head: CheckHead) -> str:
    """The kid of the run. DamagedRecord where the last commits are gone, or are not what was written by one of us."""
    sql, values = KNOWN.replace("%(no)s", "%s"), (run_no, run_no, run_no)
    ((last, known),) = db.ask(sql, values)
    refuse_cut_tail(run_id, last, known)
    rows = db.ask("SELECT body, digest, mac FROM :schema.commits WHERE run_no = %s AND n = %s", (run_no, last))
    if not rows:
        raise NotAuthentic(
            f"run {run_id}: it has no commits, and nothing goes on with it; see `reenact verify {run_id}`"
        )
    body = Codec().unpack(rows[0][0])
    refuse_other_body(run_id, last, body, rows[0][1])
    return check_head(run_id, last, sha256(body).hexdigest(), rows[0][2])


def in_other_hands(run_id: str, holder: str, expires: int, now: int) -> LockAcquireFailed:
    """Who has the run, since when nothing was heard of it, and what to do."""
    seen, left = say_ts(expires - LEASE_MS), max(expires - now, 0) / 1000
    told = f"run {run_id} is being worked on by {process_of(holder)}; its last sign of life was at {seen}"
    if is_stopped(holder):
        pid = holder.split("|")[1]
        told += f"; that process is stopped: `kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it"
    return LockAcquireFailed(
        f"{told}; wait, or stop it: it is free in {left:.0f} s unless it renews its lease, and at once after "
        f"`reenact break-lease {run_id} --reason '…'`",
        free_in_s=left,
    )


def free_in_s(db: Asks, run_id: str) -> float | None:
    """Seconds until the run's lease ends unless it is renewed; None where nobody holds it, or is seen to be gone."""
    sql = "SELECT owner, expires_ms - :schema.now_ms() FROM :schema.runs WHERE run_id = %s AND owner IS NOT NULL"
    rows = db.ask(sql, (run_id,))
    return None if not rows or owner_is_gone(rows[0][0]) else max(rows[0][1] / 1000, 0.0)


def renew(database: Database, leases: list[Lease], clock: Clock) -> list[Lease]:
    """Those that still hold, with their new ends; one whose row is being written to just now, as it was."""
    if not leases:
        return []
    until = clock.monotonic() + LEASE_MS / 1000
    named = ([held.run_id for held in leases], [held.token for held in leases], [held.owner for held in leases])
    kept = []
    for number, busy, expires, cancel in database.beat(RENEW, (*named, LEASE_MS)):
        lease = leases[number - 1]
        kept.append(lease if busy else replace(lease, cancel=cancel, expires_ms=expires, until=until))
    return kept


def release(database: Database, lease: Lease, status: RunStatus | None) -> None:
    """Only the owner releases; a lease that was taken over is left alone."""
    database.call(RELEASE, (status, lease.run_id, lease.token, lease.owner))


def break_lease(
    database: Database, run_id: str, who: str, reason: str, ts: str, sign: Callable[[bytes], Note]
) -> BrokenLease | None:
    """The run is free, and what its holder writes next is refused: on record, signed, in the same transaction."""
    tried: list[tuple[BrokenLease, Note]] = []

    def act(db: Asks) -> BrokenLease | None:
        rows = db.ask(HELD, (run_id,))
        if not rows:
            raise RunNotFound(f"no run {run_id} in this store")
        run_no, owner, token, expires, *_ = rows[0]
        for broken, note in tried:
            if notes.about(db, BROKEN, note.digest):  # it was done
                return broken
        if owner is None:
            return None
        sql = "UPDATE :schema.runs SET owner = NULL, expires_ms = 0, token = token + 1 WHERE run_no = %s"
        db.ask(sql, (run_no,))
        broken = BrokenLease(run_id, owner, token, expires, who, reason, ts)
        note = sign(canonicalize({"schema": BROKEN, **msgspec.structs.asdict(broken)}))
        notes.write(db, note)
        tried.append((broken, note))
        return broken

    return database.transact(act)


def broken_leases(db: Asks, run_id: str) -> list[BrokenLease]:
    """Those of a run that people took from their holders, in order."""
    try:
        found = [msgspec.json.decode(note.record or b"", type=BrokenLease) for note in notes.of_kinds(db, (BROKEN,))]
    except (msgspec.DecodeError, TypeError):
        raise DamagedRecord("a note of a broken lease cannot be read; see `reenact verify`") from None
    return [broken for broken in found if broken.run_id == run_id]


def unattended(db: Asks) -> frozenset[str]:
    """Ids of runs in status `running` whose lease was given back or has lapsed, or whose owner is gone."""
    rows = db.ask("SELECT run_id, owner, expires_ms <= :schema.now_ms() FROM :schema.runs WHERE status = 'running'")
    return frozenset(run_id for run_id, owner, lapsed in rows if owner is None or lapsed or owner_is_gone(owner))


def open_run(db: Asks, run_id: str) -> OpenRun | None:
    rows = db.ask(f"SELECT {OPEN_RUN} AND run_id = %s", (run_id,))
    return OpenRun(*rows[0]) if rows else None
