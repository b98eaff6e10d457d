"""Erasing values: the envelopes go, the chain stays whole, and a record says who took them out and why."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import msgspec

from reenact.contracts.records import Erasure
from reenact.errors import RunNotFound, UsageError
from reenact.journal.chain import encode, with_digest
from reenact.journal.fold import TraceFold
from reenact.journal.lines import Line
from reenact.journal.run_fold import RunFold
from reenact.store.base import PAYLOAD_BITS
from reenact.store.compression import Codec
from reenact.store.deltas import base_of
from reenact.store.sqlite import SqliteStore
from reenact.values.digest import ZERO_DIGEST


class Named:
    """Which payloads a run's lines name: by trace, and by the run itself."""

    def __init__(self, store: SqliteStore, run_id: str) -> None:
        self.by_trace: dict[str, set[str]] = {}
        self.by_run: set[str] = set()
        self.step_of: dict[str, str] = {}
        self.open: set[str] = set()
        fold = RunFold(run_id)
        fold.on_finish = self._finished
        for body in store.bodies(run_id):
            for line in fold.apply_body(body):
                self._of_run(line)
        for trace in fold.open.values():
            self._finished(trace)
            self.open.add(trace.trace_id)

    def _finished(self, trace: TraceFold) -> None:
        self.by_trace[trace.trace_id] = set(named_by(trace))
        self.step_of[trace.trace_id] = trace.step_id

    def _of_run(self, line: Line) -> None:
        if line.run is not None and line.run.plan is not None:
            self.by_run.add(line.run.plan)
        if line.event is not None:
            self.by_run |= {text for text in (line.event.data, line.event.reason) if text is not None}
        if line.vote is not None and line.vote.reason is not None:
            self.by_run.add(line.vote.reason)

    def chosen(self, step_id: str | None) -> set[str]:
        """What to erase; UsageError where a call that has not ended still needs it."""
        if step_id is None:
            if self.open:
                names = ", ".join(sorted(self.step_of[trace_id] for trace_id in self.open))
                raise UsageError(f"calls of this run have not ended ({names}); end or cancel it first")
            return self.by_run.union(*self.by_trace.values())
        wanted = [trace_id for trace_id, name in self.step_of.items() if name == step_id]
        if not wanted:
            raise RunNotFound(f"this run has no step {step_id!r}")
        if self.open & set(wanted):
            raise UsageError(f"step {step_id} has not ended; its values cannot be erased yet")
        found = set().union(*(self.by_trace[trace_id] for trace_id in wanted))
        for trace_id in self.open:
            if found & self.by_trace[trace_id]:
                raise UsageError(f"step {self.step_of[trace_id]}, which has not ended, needs a value of step {step_id}")
        return found


def named_by(trace: TraceFold) -> Iterator[str]:
    """Every commitment that a trace names."""
    if trace.request is not None:
        yield str(trace.request.proposal.args.get("$commit"))
        if isinstance(key := trace.meta("key"), str):
            yield key
    meta = trace.decision.meta if trace.decision is not None else None
    if isinstance(meta, dict) and isinstance(details := meta.get("details"), str):
        yield details
    for attempt in trace.attempts:
        if attempt.response is not None:
            yield attempt.response
    if trace.effect is not None and isinstance(trace.effect.document_hashes, list):
        yield from (document.hash for document in trace.effect.document_hashes)


def erase(store: SqliteStore, run_id: str, step_id: str | None, *, who: str, reason: str) -> int:
    """Erase the values of a step, or of a whole run with its plan. Gives how many envelopes are gone."""
    chosen = Named(store, run_id).chosen(step_id)
    run_no = store.find_run(run_id).run_no
    connection = store.writer
    with connection.transaction() as db:
        rows = payload_rows(db, run_no, chosen)
        stand_alone(db, connection.codec, connection.envelope, run_no, {row_id for row_id, _ in rows})
        for row_id, commitment in rows:
            db.execute("DELETE FROM payloads WHERE id = ?", (row_id,))
            db.execute("DELETE FROM contents WHERE run_no = ? AND payload_id = ?", (run_no, row_id))
            db.execute("DELETE FROM shared_payloads WHERE run_no = ? AND commitment = ?", (run_no, commitment))
            append_record(db, run_no, run_id, commitment.hex(), who, reason, store.door.timestamp())
    connection.query("PRAGMA wal_checkpoint(TRUNCATE)")  # the log still held the erased pages
    return len(rows)


def payload_rows(db: sqlite3.Connection, run_no: int, chosen: set[str]) -> list[tuple[int, bytes]]:
    low = run_no << 24 + PAYLOAD_BITS
    rows = db.execute(
        "SELECT id, commitment FROM payloads WHERE id >= ? AND id < ? ORDER BY id",
        (low, low + (1 << 24 + PAYLOAD_BITS)),
    )
    return [(row_id, commitment) for row_id, commitment in rows if commitment.hex() in chosen]


def stand_alone(
    db: sqlite3.Connection, codec: Codec, envelope_of: Callable[[bytes], bytes], run_no: int, going: set[int]
) -> None:
    """Envelopes that stay but build on one that goes are stored whole first."""
    low = run_no << 24 + PAYLOAD_BITS
    rows = db.execute(
        "SELECT id, commitment, body FROM payloads WHERE id >= ? AND id < ?", (low, low + (1 << 24 + PAYLOAD_BITS))
    ).fetchall()
    whole = [
        (row_id, commitment, codec.pack_envelope(envelope_of(stored)))
        for row_id, commitment, stored in rows
        if base_of(stored) in going and row_id not in going
    ]
    for row in whole:
        db.execute("DELETE FROM payloads WHERE id = ?", row[:1])
        db.execute("INSERT INTO payloads VALUES (?, ?, ?)", row)


def append_record(
    db: sqlite3.Connection, run_no: int, run_id: str, commitment: str, who: str, reason: str, ts: str
) -> None:
    """Append-only, and chained over the whole store."""
    row = db.execute("SELECT body FROM erasures ORDER BY id DESC LIMIT 1").fetchone()
    prev = last_digest(row[0]) if row is not None else ZERO_DIGEST
    record = with_digest(Erasure(commitment=commitment, prev=prev, reason=reason, run_id=run_id, ts=ts, who=who))
    db.execute("INSERT INTO erasures (run_no, body) VALUES (?, ?)", (run_no, encode(record)))


def last_digest(body: bytes) -> str:
    return str(msgspec.json.decode(body, type=Erasure).digest)
