"""Heads of runs that were written before they were authenticated: verified and vouched for once, under the store's key.

That it was done is a note, signed: from then on a head that nobody vouched for is damage, and not age.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

import msgspec

from reenact.contracts.records import ENDED
from reenact.errors import ReenactError
from reenact.store.base import KeyKeeper
from reenact.store.beside.idempotency import IdempotencyKeys, is_linked
from reenact.store.copying.origins import Origins
from reenact.store.evidence import Evidence
from reenact.store.keys.heads import MARKER, Marker
from reenact.store.keys.keeper import begun_with
from reenact.store.keys.notes import Note, is_signed_note
from reenact.store.signing import KeyOf, SigningKey, head_mac, missing_key
from reenact.store.sqlite import votes
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.keys import KeyRows
from reenact.store.sqlite.signed import notes
from reenact.values.clock import Clock
from reenact.values.digest import sha256_hex

NEVER: Final = 1 << 62
"""Beyond every run number."""
OF_RUN = "SELECT id, digest AS head FROM commits WHERE id > ? AND id < ? AND mac IS NULL ORDER BY id"


def marked(
    writer: Connection,
    store_id: str,
    key: SigningKey,
    keys: KeyKeeper,
    evidence: Callable[[], Evidence],
    clock: Clock,
    origins: Origins,
    *,
    vouches: bool = False,
) -> int:
    """The number of the first run of which every commit must be vouched for; what is of before is vouched for here."""
    there = [note for note in notes.of_kind(writer, MARKER) if note.store_id not in origins.ids]
    key_of, last_copied = keys.here.get, origins.last_run
    known = believed(there, store_id, keys) if there else []
    if there and not vouches:
        return go_on_from(known, writer, store_id, key, keys)
    rows = writer.query(
        f"SELECT run_no, run_id, parent_run FROM runs WHERE status NOT IN {ENDED} AND run_no > ? ORDER BY run_no",
        (last_copied,),
    )
    replaced = {run_id for record in keys.history().replacements for run_id, _, _ in record.runs}
    needed = {kid_of(writer, run_no) for run_no, run_id, _ in rows if run_id not in replaced}
    if any(kid is not None and key_of(kid) is None for kid in needed):
        if keys.here.vouches_once(key):
            with writer.transaction() as db:
                link_keys(db, store_id, key, keys)
        return NEVER  # until the key is back, the run is left as it is
    sound = {run_id: verified(evidence, run_id) for _, run_id in with_parents(writer, rows)}
    with writer.transaction() as db:
        found = db.execute("SELECT store_id FROM notes WHERE schema = ?", (MARKER,)).fetchall()
        if not vouches and any(whose not in origins.ids for (whose,) in found):
            return NEVER  # somebody was faster: what he wrote is read when the store is opened next
        vouched = []
        for run_no, run_id in with_parents(writer, rows):
            head, low = sound[run_id], run_no << 24
            began = key_of(kid_of(writer, run_no) or "")
            is_of_before = run_id in replaced if began is None else vouches or keys.here.vouches_once(began)
            if head is None or not is_of_before:  # one that vouches for all of its own did not write this
                continue
            own = began or key
            for row_id, digest in db.execute(OF_RUN, (low, low + head[0] + 1)).fetchall():
                mac = head_mac(own, store_id, run_id, row_id - low, bytes(digest).hex())
                db.execute("UPDATE commits SET mac = ? WHERE id = ?", (mac, row_id))
            vouched.append((run_id, *head))
        (last,) = db.execute("SELECT coalesce(max(run_no), 0) FROM runs").fetchone()
        is_of_before = vouches or keys.here.vouches_once(key)
        signed = 0 if not is_of_before or there else votes.sign_all(db, key, store_id)
        if last == last_copied or is_of_before:
            link_keys(db, store_id, key, keys, anew=vouches)
        marker = Marker(keys_linked=True, last_run=last, runs=vouched, ts=clock.timestamp(), votes=signed)
        write(db, store_id, key, marker)
    keys.here.make_strict()
    return int(last) + 1


def go_on_from(known: list[Marker], writer: Connection, store_id: str, key: SigningKey, keys: KeyKeeper) -> int:
    """The store has its marker; one of before idempotency keys were vouched for gets another."""
    if not known:
        return NEVER  # of another key: what it says is not believed, and no run is vouched for a second time
    if not any(record.keys_linked for record in known):
        with writer.transaction() as db:
            link_keys(db, store_id, key, keys)
            write(db, store_id, key, msgspec.structs.replace(known[0], keys_linked=True))
    keys.here.make_strict()
    return known[0].last_run + 1


def believed(there: list[Note], store_id: str, keys: KeyKeeper) -> list[Marker]:
    """Those that a key of the store signed."""
    known, found = keys.history().keys, []
    for note in there:
        record = note.record or b""
        if note.store_id == store_id and sha256_hex(record) == note.digest and is_signed_note(known, note):
            found.append(msgspec.json.decode(record, type=Marker))
    return found


def write(db: sqlite3.Connection, store_id: str, key: SigningKey, marker: Marker) -> None:
    notes.write(db, marker.signed(key, store_id))


def link_keys(db: sqlite3.Connection, store_id: str, key: SigningKey, keys: KeyKeeper, *, anew: bool = False) -> None:
    """The rows of idempotency keys, as they are found, where nobody has vouched for them yet."""
    if anew or not is_linked(KeyRows(db.execute)):
        IdempotencyKeys(store_id, lambda: key, keys.here.get).link_all(KeyRows(db.execute), key)


def with_parents(writer: Connection, rows: list[tuple[int, str, str | None]]) -> list[tuple[int, str]]:
    """Open runs, and those that they continue: what they carried over is read from there."""
    found: dict[int, str] = {}
    waiting = list(rows)
    while waiting:
        run_no, run_id, parent = waiting.pop(0)
        if run_no not in found:
            found[run_no] = run_id
            waiting += writer.query("SELECT run_no, run_id, parent_run FROM runs WHERE run_id = ?", (parent,))
    return list(found.items())


def verified(evidence: Callable[[], Evidence], run_id: str) -> tuple[int, str] | None:
    """(commits, head) of a run that verifies as a whole; None of one that does not."""
    from reenact.store.checks.verification import verify_evidence

    try:
        with evidence() as lying:
            checked = verify_evidence(lying, run_id)
    except ReenactError:
        return None
    report = checked.report
    if checked.differences or report.findings or report.head is None:
        return None
    return report.counts.commits, report.head


def kid_of(reader: Connection, run_no: int) -> str | None:
    """The kid in the run record; None where there is none that can be read."""
    try:
        rows = reader.query("SELECT id, body FROM commits WHERE id = ?", (run_no << 24 | 1,))
        return begun_with(reader.codec.unpack(rows[0][1])) if rows else None
    except ReenactError:
        return None


def refuse_without_key(reader: Connection, run_id: str, key_of: KeyOf) -> None:
    """KeyUnavailable where nobody vouched for a run since the key that it began with was not here."""
    rows = reader.query("SELECT run_no FROM runs WHERE run_id = ?", (run_id,))
    kid = kid_of(reader, rows[0][0]) if rows else None
    if kid is not None and key_of(kid) is None and not notes.of_kind(reader, MARKER):
        raise missing_key(run_id, kid)
