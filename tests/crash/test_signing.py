"""Killed wherever something is signed: no run is sealed without its signature, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.record.export import export_run
from reenact.runtime.writing import writer
from reenact.store.checks.verification import verify_run
from reenact.store.keys.notes import Note
from reenact.store.sqlite.signed import notes
from reenact.verify import verify_bundle
from tests.crash.harness import KILLED, in_child
from tests.crash.test_lost_keys import runtime_of, the_plan
from tests.engines.places import ask, opened, store_at
from tests.store.keys.test_key_files import signer

SEAL = "reenact.seal.v1"


def run_ids(path: Path) -> list[str]:
    store = opened(path)
    try:
        return [row.run_id for row in store.runs()]
    finally:
        store.close()


def check(path: Path) -> None:
    """Whatever was sealed is signed, and there is one note about each seal."""
    sealed = sorted(row[0] for row in ask(path, "SELECT seal_digest FROM seals"))
    signed = sorted(row[0] for row in ask(path, "SELECT digest FROM notes WHERE schema = ?", SEAL))
    assert sealed == signed
    for run_id in run_ids(path):
        verified = verify_run(store_at(path), run_id)
        report = verified.report
        assert verified.exit_code in (0, 4), (report.findings, verified.differences)
        assert (report.completeness == "holds") == (report.signature.covers == "run")


def recovered(path: Path) -> None:
    check(path)
    runtime = runtime_of(path)
    runtime.recover()
    if not run_ids(path):  # it died before its first commit
        runtime.run(the_plan(runtime))
    runtime.close()
    check(path)
    (run_id,) = run_ids(path)
    report = verify_run(store_at(path), run_id).report
    assert (report.exit_code, report.authenticity, report.signature.covers) == (0, "holds", "run"), report.findings


def killing(path: Path, at: int, *, after: bool) -> Callable[[], None]:
    """The process ends where the note of this number is written: before it, or behind it and before the commit."""

    def work() -> None:
        written, left = notes.write, [at]

        def write(db: sqlite3.Connection | sqlite3.Cursor, note: Note) -> None:
            left[0] -= 1
            if not left[0] and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            written(db, note)
            if not left[0] and after:
                os.kill(os.getpid(), signal.SIGKILL)

        notes.write = write
        run_with_checkpoints(path)

    return work


def run_with_checkpoints(path: Path) -> None:
    writer.CHECKPOINT_STEPS = 2  # in a process of its own
    runtime = runtime_of(path)
    runtime.run(the_plan(runtime))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_every_note_a_run_is_sealed_with_its_signature_or_not_at_all(tmp_path: Path, *, after: bool) -> None:
    ends = []
    for at in range(1, 20):
        path = tmp_path / f"at-{at}.db"
        ended = in_child(killing(path, at, after=after))
        ends.append(ended)
        if ended == 0:
            break
        assert ended == KILLED
        recovered(path)
    assert len(ends) == 5, "the beginning, the heads, a run checkpoint, the seal; then nothing more is signed"


def test_killed_while_a_command_signs_the_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself ends the process that waits for it, once before it has signed and once behind that."""
    place = signer(tmp_path)
    file, mark = Path(place.removeprefix("exec:")), tmp_path / "mark"
    kill = (
        "\n    import os, signal\n    from pathlib import Path\n"
        f"    if said.startswith(b'{SEAL}') and Path({str(mark)!r}).exists():\n"
        f"        Path({str(mark)!r}).unlink()\n        os.kill(os.getppid(), signal.SIGKILL)\n"
    )
    text = file.read_text()
    monkeypatch.setenv("REENACT_SIGNING_KEY", place)
    for name, where in (
        ("before", "said = sys.stdin.buffer.read()"),
        ("behind", "sys.stdout.buffer.write(key.sign(said))"),
    ):
        file.write_text(text.replace(where, f"{where}{kill}", 1))
        path = tmp_path / f"{name}.db"
        mark.touch()

        def work(path: Path = path) -> None:
            runtime = runtime_of(path)
            runtime.run({**the_plan(runtime), "steps": the_plan(runtime)["steps"][:1]})  # type: ignore[index]

        assert in_child(work) == KILLED
        assert not mark.exists()
        recovered(path)


def test_a_run_checkpoint_is_signed_and_vouches_for_an_open_run_up_to_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert in_child(lambda: run_with_checkpoints(path), crash_at="after_commit:3") == KILLED
    (run_id,) = run_ids(path)
    report = verify_run(store_at(path), run_id).report
    assert (report.exit_code, report.authenticity, report.signature.covers) == (4, "open", "part")
    assert 0 < report.signature.commits <= report.counts.commits
    export_run(store_at(path), run_id, tmp_path / "bundle")
    told = verify_bundle(tmp_path / "bundle")
    assert (told.authenticity, told.signature.covers) == ("open", "part")
    lines = (tmp_path / "bundle" / "notes.jsonl").read_text().splitlines()
    assert sum('"schema":"reenact.run_checkpoint.v1"' in line for line in lines) == 1
    recovered(path)
