"""Every cell of every evidence table, changed in every way that its schema lets it be, is found and located.

What survives unnoticed is collected, so that a failure names every hole and not only the first.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest

from reenact.errors import DamagedRecord
from reenact.store.checks.verification import RunVerification
from reenact.store.compression import Codec
from reenact.store.deltas import SALT
from tests.store.checks.store_file import COMMIT_BITS, query
from tests.verify.evidence_file import (
    TABLES,
    Change,
    Copy,
    EvidenceFile,
    Kind,
    Row,
    Text,
    commit_of,
    other_cells,
    row_changes,
    rows_of,
    setting,
)

OF_A_RUN = ("commits", "payloads")
KINDS: tuple[Kind, ...] = ("plan", "session", "open")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> EvidenceFile:
    return EvidenceFile(tmp_path_factory.mktemp("evidence") / "store.db")


@pytest.fixture
def copy(original: EvidenceFile, tmp_path: Path) -> Copy:
    return Copy(original, tmp_path)


def is_located(verified: RunVerification, row: Row, commits: set[int | None]) -> bool:
    """Broken, and the first thing that is told names the table with the row, or the commit that it belongs to."""
    if verified.exit_code != 1:
        return False
    first = verified.report.first_break
    if first is None:
        difference = verified.differences[0]
        return bool(difference.table and difference.row)
    where = first.where
    if first.code == "PAYLOAD_LOST" and row.table == "erasures":
        return where.commit is not None  # the last record of the chain is missed where it says what was erased
    if where.commit is not None:
        around = {n + step for n in commits if n is not None for step in (-1, 0, 1)}
        return where.file in (row.table, "commits", "payloads") and where.commit in around
    return where.file == row.table and (where.row is not None or where.trace_id is not None)


def is_found(original: EvidenceFile, copy: Copy, row: Row, commits: set[int | None]) -> bool:
    """By whoever verifies the run; a row that is of the whole store by whoever verifies a run that it concerns."""
    run_ids = (
        [row.run_id] if row.table in OF_A_RUN else [original.run_id(kind) for kind in ("plan", "session", "erased")]
    )
    return any(is_located(copy.verify(run_id), row, commits) for run_id in run_ids)


def says_the_same(row: Row, column: str, cell: object) -> bool:
    """Another way in which compression says the same: it unpacks to the same content."""
    was = row.values[row.columns.index(column)]
    if column != "body" or not isinstance(cell, bytes) or not isinstance(was, bytes):
        return False
    codec = Codec()
    try:
        return codec.unpack(cell) == codec.unpack(was)
    except DamagedRecord:
        return False


def is_swapped_unseen(row: Row, change: Change) -> bool:
    """The response of an attempt that failed may lie anywhere among what its commit holds, and is found there."""
    if row.table != "payloads":
        return False
    body = row.columns.index("body")
    bodies = [cell for cell in (row.values[body], change[1][body - 1]) if isinstance(cell, bytes)]
    return any(Codec().unpack(cell)[SALT:] == b"null" for cell in bodies)


def leaves_its_run(table: str, row_id: object, to: int) -> bool:
    return table == "commits" and int(str(row_id)) >> COMMIT_BITS != to >> COMMIT_BITS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_every_changed_cell_is_found_and_located(original: EvidenceFile, copy: Copy, kind: Kind, table: str) -> None:
    random = Random(f"{kind} {table}")
    missed, made = [], 0
    rows = rows_of(original, kind, table)
    for row in rows:
        for column, value in zip(row.columns, row.values, strict=True):
            copy.change()
            before = copy.cell(row, column)
            for what, cell in other_cells(value, random):
                if not copy.change(setting(row, column, cell)) or copy.cell(row, column) == before:
                    continue
                made += 1
                commits = {row.commit}
                if column == "id" and isinstance(cell, int):
                    commits.add(commit_of(table, cell))
                    if kind == "open" and row is rows[-1] and leaves_its_run(table, value, cell):
                        assert copy.verify(row.run_id).exit_code == 4  # its tail was cut
                        continue
                if is_found(original, copy, row, commits) or says_the_same(row, column, cell):
                    continue
                missed.append((column, row.values[0], what, cell if isinstance(cell, int | None) else type(cell)))
    assert missed == []
    assert made > 10 or (kind != "plan" and table not in OF_A_RUN)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_every_row_that_is_deleted_doubled_or_swapped_is_found_and_located(
    original: EvidenceFile, copy: Copy, kind: Kind, table: str
) -> None:
    missed = []
    rows = rows_of(original, kind, table)
    for row in rows:
        for what, changes, commits in row_changes(row, rows):
            if (table, what) == ("store", "duplicated") or not copy.change(*changes):
                continue  # what else a store may say of itself is nobody's evidence
            if (kind, table, what) == ("open", "commits", "deleted") and row is rows[-1]:
                verified = copy.verify(row.run_id)
                assert (verified.exit_code, verified.report.integrity) == (4, "holds")
                assert verified.report.completeness == "open"
                assert any("the tail may have been cut" in note for note in verified.report.notes)
            elif not is_found(original, copy, row, commits) and not (
                what == "swapped" and is_swapped_unseen(row, changes[0])
            ):
                missed.append((what, row.values[0], copy.verify(row.run_id).exit_code, changes[0][1]))
    assert missed == []


SPENT = ("reenact", "spent")
"""These rows follow from no run alone; they are looked at before a budget is asked."""
WORKING_STATE = {"owner", "expires_ms", "cancel", "token"}
NOT_AGAIN = {("shared_payloads", "run_no")}
"""Where a session has no need of the row, there is nothing to compare with."""


@pytest.mark.parametrize("table", ["runs", "traces", "contents", "shared_payloads", "idempotency", "seals"])
def test_a_cell_of_another_type_in_a_derived_table_is_a_difference_and_no_accident(
    original: EvidenceFile, copy: Copy, table: str
) -> None:
    columns = [str(item[1]) for item in query(original.path, f"PRAGMA table_info({table})")]
    random, missed = Random(table), []
    for values in [row for row in query(original.path, f"SELECT * FROM {table}") if row[:2] != SPENT][-2:]:
        row = " AND ".join(f"{column} IS ?" for column in columns)
        for column, value in zip(columns, values, strict=True):
            for what, cell in other_cells(value, random):
                if column in WORKING_STATE or what != "another type" or cell is value:
                    continue
                change = in_row(table, row, values, column, cell)
                if not copy.change(change):
                    continue
                verified = [copy.verify(original.run_id(kind)) for kind in (*KINDS, "erased")]
                assert all(msgspec.json.encode(each.differences) for each in verified)
                if not any(each.differences for each in verified) and (table, column) not in NOT_AGAIN:
                    missed.append((column, value, cell))
    assert missed == []


def in_row(table: str, row: str, values: tuple[object, ...], column: str, cell: object) -> Change:
    if isinstance(cell, Text):
        return f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {row}", (cell.raw, *values)
    return f"UPDATE {table} SET {column} = ? WHERE {row}", (cell, *values)


@pytest.mark.parametrize("kind", ["plan", "session", "open"])
def test_a_commit_that_is_gone_is_told_where_it_was(original: EvidenceFile, copy: Copy, kind: Kind) -> None:
    rows = rows_of(original, kind, "commits")
    for row in rows[:-1]:
        for change in (
            ("DELETE FROM commits WHERE id = ?", row.key),
            ("UPDATE commits SET id = id + 50 WHERE id = ?", row.key),
        ):
            assert copy.change(change)
            first = copy.verify(row.run_id).report.first_break
            assert first is not None
            assert (first.code, first.where.file, first.where.commit) == ("COMMIT_NUMBER", "commits", row.commit)
            assert first.what == f"commit {row.commit} is missing"


def test_every_place_that_says_the_same_in_other_bytes_is_named(original: EvidenceFile, copy: Copy) -> None:
    raw = b"\0"
    codec = Codec()
    rows = rows_of(original, "plan", "commits")
    changes = []
    for row in rows:
        body = row.values[1]
        assert isinstance(body, bytes)
        changes.append(setting(row, "body", raw + codec.unpack(body)))
    assert copy.change(*changes)
    verified = copy.verify(original.plan)
    assert verified.exit_code == 0
    for row in rows:
        assert any(note.startswith(f"commit {row.commit}: the same content") for note in verified.report.notes)


def test_a_key_of_another_store_does_not_make_it_that_store(original: EvidenceFile, copy: Copy) -> None:
    assert copy.change(("UPDATE store SET value = '019b76da-a800-7000-8000-000000000001'", ()))
    first = copy.verify(original.plan).report.first_break
    assert first is not None
    assert (first.code, first.where.file, first.where.row) == ("STORE_MISMATCH", "store", "key store_id")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE commits SET body = CAST(body AS TEXT) WHERE id = {commit}", "commits, commit 2"),
        (
            "UPDATE payloads SET commitment = lower(hex(commitment)) WHERE id = {payload}",
            "payloads, id {payload}, commit",
        ),
        ("UPDATE payloads SET body = body || x'00010203' WHERE id = {payload}", "payloads, id {payload}, commit"),
        ("UPDATE erasures SET body = CAST(x'ff' AS TEXT) WHERE id = 2", "erasures, id 2"),
        ("UPDATE keys SET public_key = CAST(x'ff' AS TEXT)", "keys, kid "),
        ("UPDATE late_effects SET id = 77", "late_effects, id 77"),
    ],
)
def test_the_command_tells_the_place(original: EvidenceFile, copy: Copy, change: str, told: str) -> None:
    rows = rows_of(original, "plan", "payloads")
    places = {"commit": rows_of(original, "plan", "commits")[1].number, "payload": rows[len(rows) // 2].number}
    assert copy.change((change.format(**places), ()))
    done = reenact("verify", original.plan, "--store", f"sqlite:///{copy.path}")
    assert done.returncode == 1, done.stderr
    assert f"first break   {told.format(**places)}" in done.stdout
    as_json = reenact("verify", original.plan, "--store", f"sqlite:///{copy.path}", "--json")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)["first_break"]["where"]["file"] == told.partition(",")[0]


def reenact(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "reenact", *arguments], capture_output=True, text=True, check=False)
