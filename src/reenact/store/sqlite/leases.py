"""Who may write to a run: the lease in its row, and whether the run is still what its last holder left."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final

import msgspec

from reenact.contracts.records import ENDED, RunStatus
from reenact.errors import DamagedRecord, NotAuthentic, RunNotFound
from reenact.store.base import LEASE_MS, PAYLOAD_BITS, BrokenLease, Lease, OpenRun
from reenact.store.compression import Codec
from reenact.store.damage import refuse_cut_tail, refuse_other_body
from reenact.store.keys.notes import Note
from reenact.store.owner import Held, Watch, in_other_hands, owner_is_gone
from reenact.store.sqlite.connection import Connection, Reads
from reenact.store.sqlite.signed import notes
from reenact.values.canonical import canonicalize
from reenact.values.clock import Clock

BROKEN: Final = "reenact.lease_broken.v1"
OPEN_RUN = f"run_id, kind, status, owner, expires_ms, token FROM runs WHERE status NOT IN {ENDED}"


CheckHead = Callable[[str, int, str, object], str]
"""(run id, commit, digest of its body, the MAC beside it) → kid; raises where it is not authentic."""


def acquire(writer: Connection, run_id: str, owner: str, clock: Clock, check_head: CheckHead, watch: Watch) -> Lease:
    """The run's lease, when it is free, or its holder is gone or was seen not to renew it for as long as it lasts."""
    with writer.transaction() as db:
        row = db.execute(
            "SELECT run_no, owner, token, expires_ms, cancel FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is None:
            raise RunNotFound(f"no run {run_id} in sqlite:///{writer.path}")
        run_no, holder, token, expires, cancel = row
        kid = refuse_other_tail(db, writer.codec, run_id, run_no, check_head)
        if holder is not None and not owner_is_gone(holder):
            held = Held(holder, token, expires)
            left = watch.left_s(run_id, held)
            if left > 0:
                raise in_other_hands(run_id, held, clock.now_ms(), left)
        until, expires = clock.monotonic() + LEASE_MS / 1000, clock.now_ms() + LEASE_MS
        lease = Lease(run_id, owner, token + 1, expires, cancel, kid, until)
        db.execute(
            "UPDATE runs SET owner = ?, token = ?, expires_ms = ? WHERE run_no = ?",
            (owner, lease.token, lease.expires_ms, run_no),
        )
        return lease


def free_in_s(reader: Reads, run_id: str, clock: Clock, watch: Watch) -> float | None:
    """Seconds until it is known whether the run's holder lives, 0 or less once it is; None where that is seen."""
    rows = reader.query("SELECT owner, token, expires_ms FROM runs WHERE run_id = ? AND owner IS NOT NULL", (run_id,))
    held = Held(*rows[0]) if rows else None
    if held is None or owner_is_gone(held.owner) or not held.is_doubtful(clock.now_ms()):
        return None
    return watch.left_s(run_id, held)


RENEW = (
    "UPDATE runs SET expires_ms = CASE WHEN expires_ms BETWEEN :end AND :end + 999 THEN expires_ms + 1 ELSE :end END "
    "WHERE run_id = :run AND token = :token AND owner = :owner RETURNING cancel, expires_ms"
)
"""The row is another after each renewal, also while the clock stands still."""


def renew(writer: Connection, leases: list[Lease], clock: Clock) -> list[Lease]:
    """Those that still hold, with their new ends."""
    kept = []
    with writer.transaction() as db:
        until, expires = clock.monotonic() + LEASE_MS / 1000, clock.now_ms() + LEASE_MS
        for lease in leases:
            which = {"end": expires, "run": lease.run_id, "token": lease.token, "owner": lease.owner}
            row = db.execute(RENEW, which).fetchone()
            if row is not None:
                kept.append(replace(lease, cancel=row[0], expires_ms=row[1], until=until))
    return kept


def release(writer: Connection, lease: Lease, status: RunStatus | None) -> None:
    """Only the owner releases; a lease that was taken over is left alone."""
    with writer.transaction() as db:
        db.execute(
            "UPDATE runs SET owner = NULL, expires_ms = 0, status = coalesce(?, status) "
            "WHERE run_id = ? AND token = ? AND owner = ?",
            (status, lease.run_id, lease.token, lease.owner),
        )


def break_lease(
    writer: Connection, run_id: str, who: str, reason: str, ts: str, sign: Callable[[bytes], Note]
) -> BrokenLease | None:
    """The run is free, and what its holder writes next is refused: on record, signed, in the same transaction."""
    with writer.transaction() as db:
        row = db.execute("SELECT run_no, owner, token, expires_ms FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(f"no run {run_id} in sqlite:///{writer.path}")
        run_no, owner, token, expires = row
        if owner is None:
            return None
        db.execute("UPDATE runs SET owner = NULL, expires_ms = 0, token = token + 1 WHERE run_no = ?", (run_no,))
        broken = BrokenLease(run_id, owner, token, expires, who, reason, ts)
        notes.write(db, sign(canonicalize({"schema": BROKEN, **msgspec.structs.asdict(broken)})))
    return broken


def broken_leases(reader: Reads, run_id: str) -> list[BrokenLease]:
    """Those of a run that people took from their holders, in order."""
    try:
        found = [msgspec.json.decode(note.record or b"", type=BrokenLease) for note in notes.of_kind(reader, BROKEN)]
    except (msgspec.DecodeError, TypeError):
        raise DamagedRecord("a note of a broken lease cannot be read; see `reenact verify`") from None
    return [broken for broken in found if broken.run_id == run_id]


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
        "SELECT coalesce((SELECT max(id) FROM commits WHERE id > :low AND id < :high), :low) - :low, "
        "(SELECT commit_n FROM traces WHERE id >= :low AND id < :high ORDER BY id DESC LIMIT 1), "
        "((SELECT max(id) FROM payloads WHERE id >= :low << :bits AND id < :high << :bits) >> :bits) - :low",
        {"low": low, "high": low + (1 << 24), "bits": PAYLOAD_BITS},
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
