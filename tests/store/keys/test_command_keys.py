"""A command that signs: nobody waits for it inside a transaction, and what it signs is on record with what it signs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.record.archive.moving import move
from reenact.record.erase import erase
from reenact.store.checks.verification import verify_run
from reenact.store.keys import command
from reenact.store.keys.notes import MOST_TRIES, NotesTogether, is_signed_note
from reenact.store.signing import SignFirst
from reenact.store.sqlite import appending
from reenact.store.sqlite.store import SqliteStore
from tests.attacks.refunds import PLAN, refund_skills
from tests.store.keys.test_key_files import signer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def refund(path: Path) -> str:
    runtime = Runtime(str(path), skills=refund_skills())
    try:
        return str(runtime.run(PLAN).run_id)
    finally:
        runtime.close()


WATCHING = """
    import sqlite3
    db = sqlite3.connect({path!r}, timeout=0, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
        free = "free"
    except sqlite3.OperationalError:
        free = "held"
    with open({log!r}, "a") as log:
        log.write(said.decode().partition("\\n")[0] + " " + free + "\\n")
"""


def test_nobody_is_kept_from_writing_while_a_command_signs_a_seal(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    place = signer(tmp_path)
    file = Path(place.removeprefix("exec:"))
    watching = WATCHING.format(path=str(path), log=str(log))
    file.write_text(file.read_text().replace("sys.stdin.buffer.read()", f"sys.stdin.buffer.read(){watching}", 1))
    monkeypatch.setenv("REENACT_SIGNING_KEY", place)
    run_id = refund(path)
    store = SqliteStore(str(path))
    erase(store, run_id, None, who="ada", reason="asked for")
    store.close()
    again = refund(path)
    signed = log.read_text().splitlines()
    assert signed.count("reenact.seal.v1 free") == 2
    assert "reenact.erasures.v1 free" in signed
    assert not [line for line in signed if line.startswith("reenact.seal") and line.endswith("held")]
    for each in (run_id, again):
        report = verify_run(str(path), each).report
        assert (report.authenticity, report.signature.covers) == ("holds", "run"), report.findings


def test_nobody_is_kept_from_writing_while_a_command_signs_what_is_erased_or_archived(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note for each value: of a long conversation others would have waited for minutes."""
    log, place = tmp_path / "log", signer(tmp_path)
    file = Path(place.removeprefix("exec:"))
    watching = WATCHING.format(path=str(path), log=str(log))
    file.write_text(file.read_text().replace("sys.stdin.buffer.read()", f"sys.stdin.buffer.read(){watching}", 1))
    monkeypatch.setenv("REENACT_SIGNING_KEY", place)
    run_id = refund(path)
    log.unlink()
    with closing(SqliteStore(str(path))) as store:
        moved = move(store, run_id, tmp_path / "archive", who="ada", reason="old").values
        erased = erase(store, run_id, None, who="ada", reason="asked for")
    signed = [line for line in log.read_text().splitlines() if line.startswith("reenact.erasure.")]
    assert signed == ["reenact.erasure.v2 free"] * (moved + erased)
    report = verify_run(str(path), run_id).report
    assert (report.exit_code, report.counts.present, report.counts.erased) == (0, 0, erased), report.findings


@pytest.mark.parametrize("faster", [1, MOST_TRIES + 1])
def test_notes_that_belong_together_are_signed_again_where_others_were_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faster: int
) -> None:
    monkeypatch.setenv("REENACT_SIGNING_KEY", signer(tmp_path))
    with closing(SqliteStore(str(tmp_path / "store.db"))) as store:
        key = store.signing_key
    notes, tries = NotesTogether(key, "store"), 0
    while True:
        digests = [f"{each + 2 * min(tries, faster):064x}" for each in range(2)]  # others put theirs before them
        made = [notes.note("reenact.erasure.v1", digest) for digest in digests]
        try:
            notes.settle()
        except SignFirst as first:
            tries += 1
            first.sign(tries)
        else:
            break
    assert tries == min(faster + 1, MOST_TRIES)
    assert all(is_signed_note({key.kid: key.public_key}, note) for note in made)


def test_a_command_that_others_are_faster_than_signs_in_the_end(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it signs one seal another process writes its own, each time: in the end nobody else may write meanwhile."""
    monkeypatch.setenv("REENACT_SIGNING_KEY", signer(tmp_path))
    monkeypatch.setattr(command, "MOST_TRIES", 3)
    heads = iter(f"{number:064x}" for number in range(1, 100))
    monkeypatch.setattr(appending, "last_seal", lambda _: next(heads))
    run_id = refund(path)
    assert next(heads) == f"{5:064x}", "three were signed for nothing, the fourth inside"
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM notes WHERE schema = 'reenact.seal.v1'").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM runs WHERE run_id = ? AND status = 'completed'", (run_id,)).fetchone()
