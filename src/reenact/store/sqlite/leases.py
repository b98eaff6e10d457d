"""Who may write to a run: the lease in its row, and whether the run is still what its last holder left."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

from reenact.contracts.records import ENDED, RunStatus
from reenact.errors import DamagedRecord, LockAcquireFailed, NotAuthentic, RunNotFound
from reenact.store.base import LEASE_MS, PAYLOAD_BITS, Lease, OpenRun
from reenact.store.compression import Codec
from reenact.store.damage import refuse_cut_tail, refuse_other_body
from reenact.store.owner import is_out_of_sight, owner_is_gone
from reenact.store.sqlite.connection import Connection, Reads
from reenact.values.clock import Clock

OPEN_RUN = f"run_id, kind, status, owner, expires_ms, token FROM runs WHERE status NOT IN {ENDED}"


CheckHead = Callable[[str, int, str, object], str]
"""(run id, commit, digest of its body, the MAC beside it) → kid; raises where it is not authentic."""


def acquire(writer: Connection, run_id: str, owner: str, clock: Clock, check_head: CheckHead) -> Lease:
    """The run's lease, when it is free, lapsed, or held by a process of this host that is gone."""
    with writer.transaction() as db:
        row = db.execute(
            "SELECT run_no, owner, token, expires_ms, cancel FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is None:
            raise RunNotFound(f"no run {run_id} in sqlite:///{writer.path}")
        run_no, holder, token, expires, cancel = row
        kid = refuse_other_tail(db, writer.codec, run_id, run_no, check_head)
        now_ms = clock.now_ms()
        if holder is not None and now_ms < expires and not owner_is_gone(holder):
            left = (expires - now_ms) / 1000
            raise LockAcquireFailed(
                f"run {run_id} is being worked on by {' process '.join(holder.split('|')[:2])}; "
                f"its lease ends in {left:.0f} s unless renewed",
                free_in_s=left if is_out_of_sight(holder) and expires <= now_ms + LEASE_MS else None,
            )
        lease = Lease(run_id, owner, token + 1, now_ms + LEASE_MS, cancel, kid)
        db.execute(
            "UPDATE runs SET owner = ?, token = ?, expires_ms = ? WHERE run_no = ?",
            (owner, lease.token, lease.expires_ms, run_no),
        )
        return lease


def renew(writer: Connection, leases: list[Lease], clock: Clock) -> list[Lease]:
    """Those that still hold, with their new ends."""
    kept = []
    with writer.transaction() as db:
        expires = clock.now_ms() + LEASE_MS
        for lease in leases:
            row = db.execute(
                "UPDATE runs SET expires_ms = ? WHERE run_id = ? AND token = ? AND owner = ? RETURNING cancel",
                (expires, lease.run_id, lease.token, lease.owner),
            ).fetchone()
            if row is not None:
                kept.append(replace(lease, expires_ms=expires, cancel=row[0]))
    return kept


def release(writer: Connection, lease: Lease, status: RunStatus | None) -> None:
    """Only the owner releases; a lease that was taken over is left alone."""
    with writer.transaction() as db:
        db.execute(
            "UPDATE runs SET owner = NULL, expires_ms = 0, status = coalesce(?, status) "
            "WHERE run_id = ? AND token = ? AND owner = ?",
            (status, lease.run_id, lease.token, lease.owner),
        )


def unattended(reader: Reads, now_ms: int) -> frozenset[str]:
    """Ids of runs in status `running` whose lease was given back or has lapsed, or whose owner is gone."""
    found = set()
    for (run_no,) in reader.query("SELECT run_no FROM runs WHERE status = 'running'"):
        with suppress(DamagedRecord):  # `runs` tells of it
            rows = reader.query("SELECT run_id, owner, expires_ms FROM runs WHERE run_no = ?", (run_no,))
            found |= {run_id for run_id, owner, ends in rows if owner is None or now_ms >= ends or owner_is_gone(owner)}
    return frozenset(found)


def open_run(reader: Reads, run_id: str) -> OpenRun | None:
    rows = reader.query(f"SELECT {OPEN_RUN} AND run_id = ?", (run_id,))
    return OpenRun(*rows[0]) if rows else None


def refuse_other_tail(db: sqlite3.Connection, codec: Codec, run_id: str, run_no: int, check_head: CheckHead) -> str:
    """The kid of the run. DamagedRecord where the last commits are gone, or are not what was written by one of us."""
    low = run_no << 24
    last, traced, stored = db.execute(
        "SELECT coalesce((SELECT max(id) FROM commits WHERE id > ?1 AND id < ?2), ?1) - ?1, "
        "(SELECT commit_n FROM traces WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1), "
        "((SELECT max(id) FROM payloads WHERE id >= ?1 << ?3 AND id < ?2 << ?3) >> ?3) - ?1",
        (low, low + (1 << 24), PAYLOAD_BITS),
    ).fetchone()
    known = max((n for n in (traced, stored) if isinstance(n, int)), default=0)
    refuse_cut_tail(run_id, last, known)
    row = db.execute("SELECT body, CAST(digest AS BLOB), mac FROM commits WHERE id = ?", (low + last,)).fetchone()
    if row is None:
        raise NotAuthentic(
            f"run {run_id}: it has no commits, and nothing goes on with it; see `reenact verify {run_id}`"
        )
    body = codec.unpack(row[0])
    refuse_other_body(run_id, last, body, row[1])
    return check_head(run_id, last, sha256(body).hexdigest(), row[2])
