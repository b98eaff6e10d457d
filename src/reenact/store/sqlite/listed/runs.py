"""Rows of runs: the newest first, those that replayed another, those that ended since a seal."""

from __future__ import annotations

from reenact.contracts.records import RunStatus
from reenact.errors import DamagedRecord, RunNotFound
from reenact.store.base import RunRow
from reenact.store.sqlite.connection import Reads

RUN_COLUMNS = (
    "run_id, kind, mode, status, plan_id, agent_id, parent_run, "
    "coalesce((SELECT max(id) FROM commits WHERE id >> 24 = run_no AND id >= run_no << 24 "
    "AND id < (run_no + 1) << 24), 0) & 16777215, started_at, session"
)


def listed(reader: Reads, status: tuple[RunStatus, ...] | None, limit: int | None, before: str | None) -> list[RunRow]:
    """The newest first. Of several statuses each is looked for apart: a few runs among many are found by the index."""
    first, most = number_of(reader, before) if before is not None else 1 << 62, -1 if limit is None else limit
    if not status:
        return rows_of(reader, "runs WHERE run_no < ? ORDER BY run_no DESC LIMIT ?", (first, most))
    each = "SELECT run_no FROM (SELECT run_no FROM runs WHERE status = ? AND run_no < ? ORDER BY run_no DESC LIMIT ?)"
    statuses = dict.fromkeys(status)
    values = [value for one in statuses for value in (one, first, most)]
    chosen = " UNION ALL ".join([each] * len(statuses))
    return rows_of(reader, f"runs WHERE run_no IN ({chosen}) ORDER BY run_no DESC LIMIT ?", (*values, most))


def replays(reader: Reads, run_id: str) -> list[RunRow]:
    return rows_of(reader, "runs WHERE parent_run = ? ORDER BY run_no DESC", (run_id,))


def sealed(reader: Reads, after: int, limit: int) -> list[tuple[int, RunRow]]:
    found = reader.query("SELECT id, run_no FROM seals WHERE id > ? ORDER BY id LIMIT ?", (after, limit))
    return [(number, row) for number, run_no in found for row in rows_of(reader, "runs WHERE run_no = ?", (run_no,))]


def rows_of(reader: Reads, wanted: str, values: tuple[object, ...]) -> list[RunRow]:
    try:
        return [RunRow(*row) for row in reader.query(f"SELECT {RUN_COLUMNS} FROM {wanted}", values)]
    except DamagedRecord:  # one row does not keep the others from being read
        return [row_of(reader, run_no) for (run_no,) in reader.query(f"SELECT run_no FROM {wanted}", values)]


def row_of(reader: Reads, run_no: int) -> RunRow:
    try:
        return RunRow(*reader.query(f"SELECT {RUN_COLUMNS} FROM runs WHERE run_no = ?", (run_no,))[0])
    except DamagedRecord as damage:
        ((raw,),) = reader.query("SELECT CAST(run_id AS BLOB) FROM runs WHERE run_no = ?", (run_no,))
        return RunRow.unreadable((raw or b"").decode("utf-8", "replace"), f"row {run_no} of runs: {damage}")


def number_of(reader: Reads, run_id: str) -> int:
    rows = reader.query("SELECT run_no FROM runs WHERE run_id = ?", (run_id,))
    if not rows:
        raise RunNotFound(f"no run {run_id} in this store")
    return int(rows[0][0])
