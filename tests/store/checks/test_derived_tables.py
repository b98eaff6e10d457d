"""Tables that follow from the commits are rebuilt and compared: a changed cell, a missing or an added row is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.replay.runtime import Runtime
from reenact.store.beside.spending import SPENT
from reenact.store.checks.verification import verify_run
from tests.store.checks.store_file import REGISTRY, StoreFile, query, tamper

# Who works on a run, and what he is asked: of use to the living, no evidence. A token can only be too small.
WORKING_STATE = {"owner", "expires_ms", "cancel", "token"}
# Nor are amounts of a day: who asks for them checks them.
TABLES = ("runs", "traces", "contents", "shared_payloads", "idempotency", "seals")


def cells(path: Path, table: str) -> list[tuple[tuple[str, ...], tuple[object, ...]]]:
    """(columns, values) of each row."""
    columns = tuple(str(row[1]) for row in query(path, f"PRAGMA table_info({table})"))
    rows = query(path, f"SELECT * FROM {table}")
    return [(columns, row) for row in rows if table != "idempotency" or row[:2] != SPENT]


def other(value: object) -> object:
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, int):
        return value + 1_000_003
    return "0" + str(value)[1:] if str(value)[:1] != "0" else "1" + str(value)[1:]


def where(columns: tuple[str, ...], row: tuple[object, ...]) -> tuple[str, tuple[object, ...]]:
    return " AND ".join(f"{column} IS ?" for column in columns), row


def verdicts(path: Path, original: StoreFile) -> list[tuple[int, list[str]]]:
    """For each run: exit code, and the tables that differ."""
    found = []
    for run_id in (original.first, original.second, original.killed, original.last):
        verified = verify_run(str(path), run_id)
        found.append((verified.exit_code, [difference.table for difference in verified.differences]))
    return found


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_of_a_derived_table_is_compared(original: StoreFile, tmp_path: Path, table: str) -> None:
    rows = cells(original.path, table)
    assert rows
    path = tmp_path / "copy.db"
    missed = []
    for columns, row in rows:
        condition, values = where(columns, row)
        for column, value in zip(columns, row, strict=True):
            if column in WORKING_STATE or (column == "request_digest" and original.number(original.second) in row):
                continue  # the second cannot be computed again: its arguments were erased
            original.copy(path)
            tamper(path, (f"UPDATE {table} SET {column} = ? WHERE {condition}", (other(value), *values)))
            if not any(code == 1 for code, _ in verdicts(path, original)):
                missed.append((column, value))
    assert missed == []


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_row_of_a_derived_table_is_told(original: StoreFile, tmp_path: Path, table: str) -> None:
    path = tmp_path / "copy.db"
    for columns, row in cells(original.path, table):
        condition, values = where(columns, row)
        original.copy(path)
        tamper(path, (f"DELETE FROM {table} WHERE {condition}", values))
        found = verdicts(path, original)
        assert any(table in tables for _, tables in found), row


def test_added_rows_are_told(original: StoreFile, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    number = original.number(original.first)
    for table, statement in (
        ("traces", f"INSERT INTO traces VALUES ({number << 24 | 77}, 'a-trace', 'a-step', 1)"),
        (
            "idempotency",
            f"INSERT INTO idempotency VALUES ('local', 'talk', 'k', 'd', 'a', 't', {number}, 'completed', '', x'')",
        ),
        ("contents", f"INSERT INTO contents VALUES ({number}, x'00', 1, x'00')"),
        ("shared_payloads", f"INSERT INTO shared_payloads VALUES ({number}, x'00', 1)"),
        ("run_checkpoints", f"INSERT INTO run_checkpoints (id, frontier) VALUES ({number << 24 | 2}, x'00')"),
    ):
        original.copy(path)
        tamper(path, (statement, ()))
        verified = verify_run(str(path), original.first)
        assert [difference.table for difference in verified.differences] == [table]
        assert verified.report.exit_code == 0, "the evidence itself is whole"
        assert verified.exit_code == 1


def test_a_run_is_found_by_its_commits_when_the_table_of_runs_is_wrong(original: StoreFile, tmp_path: Path) -> None:
    path = original.copy(tmp_path / "copy.db")
    tamper(path, ("DELETE FROM runs WHERE run_id = ?", (original.first,)))
    verified = verify_run(str(path), original.first)
    assert verified.report.run_id == original.first
    assert verified.report.integrity == "holds"
    assert verified.differences[0].table == "runs"
    assert verified.differences[0].what == "there is no such row"


def test_a_token_below_one_that_was_used_is_told(original: StoreFile, tmp_path: Path) -> None:
    path = original.copy(tmp_path / "copy.db")
    tamper(path, ("UPDATE runs SET token = 0", ()))
    assert [item.what for item in verify_run(str(path), original.first).differences] == ["token"]


def test_what_recovery_starts_from_is_compared_too(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    steps = [
        {"step_id": f"s{number}", "skill_id": "talk", "parameters": {"text": f"word {number % 5}"}}
        for number in range(300)
    ]
    runtime = Runtime(str(path), skills=REGISTRY)
    run_id = runtime.run({"plan_id": "long", "agent_id": "a", "steps": steps}).run_id
    runtime.close()
    rows = query(path, "SELECT id, frontier, mac FROM run_checkpoints")
    assert len(rows) == 1
    assert verify_run(str(path), run_id).exit_code == 0
    frontier = rows[0][1]
    assert isinstance(frontier, bytes)
    changed = frontier.replace(b"\xa4done\xcd\x01\x00", b"\xa4done\xcd\x01\x01")
    assert changed != frontier
    tamper(path, ("UPDATE run_checkpoints SET frontier = ?", (changed,)))
    assert [item.table for item in verify_run(str(path), run_id).differences] == ["run_checkpoints"]
    flipped = frontier[:-1] + bytes([frontier[-1] ^ 1])  # of what is kept besides
    tamper(path, ("UPDATE run_checkpoints SET frontier = ?", (flipped,)))
    assert [item.table for item in verify_run(str(path), run_id).differences] == ["run_checkpoints"]
    tamper(path, ("UPDATE run_checkpoints SET frontier = ?", (frontier,)))
    assert verify_run(str(path), run_id).exit_code == 0
    for mac in (bytes(40), rows[0][2][:8] + bytes(32), b"", None):
        tamper(path, ("UPDATE run_checkpoints SET mac = ?", (mac,)))
        assert [item.table for item in verify_run(str(path), run_id).differences] == ["run_checkpoints"]
    tamper(path, ("DELETE FROM run_checkpoints", ()))
    assert [item.table for item in verify_run(str(path), run_id).differences] == ["run_checkpoints"]
