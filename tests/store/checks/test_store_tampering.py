"""Whatever is changed, removed, swapped or cut in the evidence of a run is found, and told where.

Each change is made to a copy of the store with the guards off and on again. What survives unnoticed is collected, so
that a failure names every hole and not only the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from reenact.store.base import PAYLOAD_BITS
from reenact.store.checks.verification import RunVerification, verify_run
from tests.store.checks.store_file import COMMIT_BITS, StoreFile, query, rewrite, tamper

Change = tuple[str, tuple[object, ...]]
BY_RUN = ("runs", "contents", "shared_payloads", "seals", "idempotency")


class Attacker:
    """Makes one change at a time to a copy of the original, and asks the verifier."""

    def __init__(self, original: StoreFile, folder: Path) -> None:
        self.original = original
        self.path = folder / "copy.db"

    def verify(self, run_id: str, *changes: Change) -> RunVerification:
        self.original.copy(self.path)
        tamper(self.path, *changes)
        return verify_run(str(self.path), run_id)

    def rows(self, table: str, run_id: str) -> list[tuple[int, tuple[object, ...]]]:
        """(id, the other cells) of the run's rows in `commits` or `payloads`."""
        bits = COMMIT_BITS + (PAYLOAD_BITS if table == "payloads" else 0)
        low = self.original.number(run_id) << bits
        found = query(
            self.original.path, f"SELECT * FROM {table} WHERE id >= ? AND id < ? ORDER BY id", (low, low + (1 << bits))
        )
        return [(int(str(row[0])), row[1:]) for row in found]


@pytest.fixture
def attacker(original: StoreFile, tmp_path: Path) -> Attacker:
    return Attacker(original, tmp_path)


def flipped(data: object, at: int, bit: int = 0) -> bytes:
    assert isinstance(data, bytes)
    changed = bytearray(data)
    changed[at % len(data)] ^= 1 << bit
    return bytes(changed)


def is_located(verified: RunVerification, table: str, commits: set[int] | None = None) -> bool:
    """Broken, and the first break is in this table, at one of these commits where that is known."""
    first = verified.report.first_break
    if verified.exit_code != 1 or first is None:
        return False
    near = commits is None or first.where.commit in commits
    return near and first.where.file in (table, "commits", "payloads")


def run_of(original: StoreFile, name: str) -> str:
    return str(getattr(original, name))


def other_bytes(data: object) -> Iterator[bytes]:
    """The same cell with a bit flipped here and there, cut, grown, empty, or of another kind."""
    assert isinstance(data, bytes)
    for at in range(0, len(data), max(1, len(data) // 7)):
        yield flipped(data, at, at % 8)
    yield data[:-1]
    yield data + b"\0"
    yield b""
    yield b"\x02" + b"not compressed at all"
    yield b"\x09" + data[1:]


@pytest.mark.parametrize("name", ["first", "killed"])
def test_any_change_of_a_stored_commit_is_found(attacker: Attacker, original: StoreFile, name: str) -> None:
    run_id = run_of(original, name)
    missed = []
    for row_id, (body, digest, mac) in attacker.rows("commits", run_id):
        n = row_id % (1 << COMMIT_BITS)
        other_mac = ("UPDATE commits SET mac = ? WHERE id = ?", (mac[:8] + flipped(mac[8:], n), row_id))
        if not is_located(attacker.verify(run_id, other_mac), "commits", {n}):
            missed.append((n, -2))
        other_digest = ("UPDATE commits SET digest = ? WHERE id = ?", (flipped(digest, n), row_id))
        if not is_located(attacker.verify(run_id, other_digest), "commits", {n}):
            missed.append((n, -1))
        for number, other in enumerate(other_bytes(body)):
            verified = attacker.verify(run_id, ("UPDATE commits SET body = ? WHERE id = ?", (other, row_id)))
            same_content = any("same content" in note and f"commit {n}" in note for note in verified.report.notes)
            if not (is_located(verified, "commits", {n, n + 1}) or same_content):
                missed.append((n, number))
    assert missed == []


@pytest.mark.parametrize("name", ["first", "killed"])
def test_any_change_of_what_a_line_says_is_found(attacker: Attacker, original: StoreFile, name: str) -> None:
    """Unpacked, changed by one character, packed again: as somebody would who knows the format."""
    run_id = run_of(original, name)
    missed = []
    for row_id, _ in attacker.rows("commits", run_id):
        n = row_id % (1 << COMMIT_BITS)
        length = 0

        def change(body: bytes, at: int = 0) -> bytes:
            nonlocal length
            length = len(body)
            return flipped(body, at)

        rewrite(original.path, row_id, change)
        for at in range(3, length, 113):
            verified = attacker.verify(
                run_id,
                rewrite(original.path, row_id, lambda body, at=at: flipped(body, at)),  # type: ignore[misc]
            )
            if not is_located(verified, "commits", {n - 1, n, n + 1, None}):  # type: ignore[arg-type]
                missed.append((n, at))
    assert missed == []


def test_a_commit_that_is_removed_moved_doubled_or_swapped_is_found(attacker: Attacker, original: StoreFile) -> None:
    missed: list[tuple[str, int]] = []
    for run_id in (original.first, original.last):
        rows = attacker.rows("commits", run_id)
        far = 99 << COMMIT_BITS
        for number, (row_id, _) in enumerate(rows):
            n = row_id % (1 << COMMIT_BITS)
            changes: dict[str, list[Change]] = {
                "removed": [("DELETE FROM commits WHERE id = ?", (row_id,))],
                "moved back": [("UPDATE commits SET id = ? WHERE id = ?", (row_id + 50, row_id))],
                "moved to another run": [("UPDATE commits SET id = ? WHERE id = ?", (far + n, row_id))],
                "doubled": [
                    ("INSERT INTO commits SELECT ?, body, digest, mac FROM commits WHERE id = ?", (row_id + 50, row_id))
                ],
            }
            if number:
                before = rows[number - 1][0]
                changes["swapped"] = [
                    ("UPDATE commits SET id = ? WHERE id = ?", (far, row_id)),
                    ("UPDATE commits SET id = ? WHERE id = ?", (row_id, before)),
                    ("UPDATE commits SET id = ? WHERE id = ?", (before, far)),
                ]
            for what, change in changes.items():
                verified = attacker.verify(run_id, *change)
                if verified.exit_code != 1 or verified.report.first_break is None:
                    missed.append((what, n))
    assert missed == []


def test_a_cut_tail_of_a_sealed_run_is_found(attacker: Attacker, original: StoreFile) -> None:
    for run_id in (original.first, original.last):
        rows = attacker.rows("commits", run_id)
        for cut in range(1, len(rows)):
            gone = [row_id for row_id, _ in rows[-cut:]]
            verified = attacker.verify(run_id, *(("DELETE FROM commits WHERE id = ?", (row_id,)) for row_id in gone))
            assert (verified.exit_code, verified.report.completeness) == (1, "broken"), cut
            assert {finding.code for finding in verified.report.findings} & {"SEAL_MISSING"}


def test_a_cut_tail_of_a_run_without_a_seal_is_open_and_never_called_whole(
    attacker: Attacker, original: StoreFile
) -> None:
    rows = attacker.rows("commits", original.killed)
    bits = COMMIT_BITS + PAYLOAD_BITS
    for cut in range(1, len(rows) - 1):
        first_gone = rows[-cut][0]
        run_no = first_gone >> COMMIT_BITS
        verified = attacker.verify(
            original.killed,
            ("DELETE FROM commits WHERE id >= ? AND id >> ? = ?", (first_gone, COMMIT_BITS, run_no)),
            ("DELETE FROM payloads WHERE id >= ? AND id >> ? = ?", (first_gone << PAYLOAD_BITS, bits, run_no)),
        )
        assert verified.report.integrity == "holds", cut
        assert verified.report.completeness == "open", cut
        assert verified.exit_code in (1, 4), cut  # 1 where a derived table still remembers what is gone


def test_a_whole_run_that_is_taken_out_is_missed_by_its_neighbour(attacker: Attacker, original: StoreFile) -> None:
    number = original.number(original.first)
    bits = COMMIT_BITS + PAYLOAD_BITS
    changes: list[Change] = [
        ("DELETE FROM commits WHERE id >> ? = ?", (COMMIT_BITS, number)),
        ("DELETE FROM payloads WHERE id >> ? = ?", (bits, number)),
        ("DELETE FROM traces WHERE id >> ? = ?", (COMMIT_BITS, number)),
        *((f"DELETE FROM {table} WHERE run_no = ?", (number,)) for table in BY_RUN),
    ]
    verified = attacker.verify(original.second, *changes)
    assert verified.exit_code == 1
    assert [difference.table for difference in verified.differences] == ["seals"]


@pytest.mark.parametrize("name", ["first", "killed"])
def test_any_change_of_a_payload_is_found(attacker: Attacker, original: StoreFile, name: str) -> None:
    run_id = run_of(original, name)
    missed: list[tuple[str, int]] = []
    for row_id, (commitment, body) in attacker.rows("payloads", run_id):
        for number, other in enumerate(other_bytes(body)):
            verified = attacker.verify(run_id, ("UPDATE payloads SET body = ? WHERE id = ?", (other, row_id)))
            same_content = any("same content" in note for note in verified.report.notes)
            if not (is_located(verified, "payloads") or same_content):
                missed.append((f"body {number}", row_id))
        changes: dict[str, Change] = {
            "commitment": ("UPDATE payloads SET commitment = ? WHERE id = ?", (flipped(commitment, 7), row_id)),
            "removed": ("DELETE FROM payloads WHERE id = ?", (row_id,)),
            "place in the commit": ("UPDATE payloads SET id = ? WHERE id = ?", (row_id + 200, row_id)),
            "commit": ("UPDATE payloads SET id = ? WHERE id = ?", (row_id + (1 << PAYLOAD_BITS) + 200, row_id)),
            "run": ("UPDATE payloads SET id = ? WHERE id = ?", (row_id + (1 << 50), row_id)),
        }
        for what, change in changes.items():
            if not is_located(attacker.verify(run_id, change), "payloads"):
                missed.append((what, row_id))
    assert missed == []


def test_swapped_payloads_are_found(attacker: Attacker, original: StoreFile) -> None:
    rows = attacker.rows("payloads", original.first)
    missed = []
    for (one, (_, first_body)), (two, (_, second_body)) in pairwise(rows):
        bodies: list[Change] = [
            ("UPDATE payloads SET body = ? WHERE id = ?", (second_body, one)),
            ("UPDATE payloads SET body = ? WHERE id = ?", (first_body, two)),
        ]
        whole: list[Change] = [
            ("UPDATE payloads SET id = -1 WHERE id = ?", (one,)),
            ("UPDATE payloads SET id = ? WHERE id = ?", (one, two)),
            ("UPDATE payloads SET id = ? WHERE id = -1", (two,)),
        ]
        for what, changes in (("bodies", bodies), ("rows", whole)):
            if not is_located(attacker.verify(original.first, *changes), "payloads"):
                missed.append((what, one))
    assert missed == []


def test_erased_payloads_are_told_from_lost_ones(attacker: Attacker, original: StoreFile) -> None:
    verified = attacker.verify(original.second)
    counts = verified.report.counts
    assert (verified.exit_code, counts.erased, counts.lost) == (0, original.erased, 0)
    assert original.erased > 2
    lost = attacker.verify(original.second, ("DELETE FROM erasures WHERE id = (SELECT max(id) FROM erasures)", ()))
    assert lost.exit_code == 1
    assert lost.report.first_break is not None
    assert (lost.report.first_break.code, lost.report.counts.lost) == ("PAYLOAD_LOST", 1)


def test_any_change_of_an_erasure_record_is_found(attacker: Attacker, original: StoreFile) -> None:
    rows = query(original.path, "SELECT id, body FROM erasures ORDER BY id")
    missed: list[tuple[object, object]] = []
    for row_id, body in rows:
        assert isinstance(body, bytes)
        changes: dict[object, Change] = {
            at: ("UPDATE erasures SET body = ? WHERE id = ?", (flipped(body, at), row_id))
            for at in range(0, len(body), 23)
        }
        changes["id"] = ("UPDATE erasures SET id = 77 WHERE id = ?", (row_id,))
        changes["run_no"] = ("UPDATE erasures SET run_no = 1 WHERE id = ?", (row_id,))
        changes["removed"] = ("DELETE FROM erasures WHERE id = ?", (row_id,))
        for what, change in changes.items():
            if attacker.verify(original.second, change).exit_code != 1:
                missed.append((row_id, what))
    assert missed == []
    swapped = attacker.verify(
        original.first,
        ("UPDATE erasures SET id = -1 WHERE id = 1", ()),
        ("UPDATE erasures SET id = 1 WHERE id = 2", ()),
        ("UPDATE erasures SET id = 2 WHERE id = -1", ()),
    )
    assert swapped.exit_code == 1
    assert swapped.report.first_break is not None
    assert swapped.report.first_break.where.file == "erasures"


def test_any_change_of_a_key_is_found(attacker: Attacker, original: StoreFile) -> None:
    key = str(query(original.path, "SELECT public_key FROM keys")[0][0])
    other = key[:5] + ("A" if key[5] != "A" else "B") + key[6:]
    for change in (
        ("DELETE FROM keys", ()),
        ("UPDATE keys SET public_key = ?", (other,)),
        ("UPDATE keys SET public_key = ''", ()),
        ("UPDATE keys SET kid = '0123456789abcdef'", ()),
    ):
        verified = attacker.verify(original.first, change)
        assert (verified.exit_code, verified.report.authenticity) == (1, "broken"), change
        assert verified.report.first_break is not None
        assert verified.report.first_break.where.file == "keys", change


def test_guards_that_were_taken_off_are_told(original: StoreFile, tmp_path: Path) -> None:
    import sqlite3

    path = original.copy(tmp_path / "copy.db")
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER commits_are_not_deleted")
    db.close()
    verified = verify_run(str(path), original.first)
    assert verified.exit_code == 0
    assert any("commits_are_not_deleted" in note for note in verified.report.notes)
