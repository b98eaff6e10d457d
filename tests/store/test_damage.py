"""A run whose rows are not what was written is not gone on with: one line says so, and nothing is sent or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.errors import ChecksumMismatch, DamagedRecord, ReenactError
from reenact.replay.runtime import Runtime
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import KILLED, Stage, in_child
from tests.store.checks.store_file import query, rewrite, tamper


@pytest.fixture
def open_run(stage: Stage) -> Stage:
    """A run that was killed in its second step."""
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    return stage


def refused(stage: Stage, run_id: str = "last") -> ReenactError:
    """What going on with the run says; the world and the journal stay as they are."""
    before = (len(stage.ledger.calls()), commits(stage))
    with pytest.raises(ReenactError) as error:
        resume(stage, run_id)
    assert (len(stage.ledger.calls()), commits(stage)) == before
    assert "\n" not in str(error.value)
    return error.value


def resume(stage: Stage, run_id: str) -> None:
    runtime: Runtime = stage.runtime()
    try:
        runtime.resume(run_id)
    finally:
        runtime.close()


def commits(stage: Stage) -> list[tuple[object, ...]]:
    return query(Path(stage.store_path), "SELECT id, digest FROM commits ORDER BY id")


@pytest.mark.parametrize("also", ["", "payloads", "traces"])
def test_a_run_whose_tail_was_cut_is_left_as_it_is(also: str, open_run: Stage) -> None:
    path, last = Path(open_run.store_path), commits(open_run)[-1][0]
    changes: list[tuple[str, tuple[object, ...]]] = [("DELETE FROM commits WHERE id = ?", (last,))]
    if also == "payloads":
        changes.append(("DELETE FROM payloads WHERE id >> 12 = ?", (last,)))
    elif also == "traces":
        changes.append(("DELETE FROM traces WHERE commit_n = ? & 16777215", (last,)))
    tamper(path, *changes)
    error = refused(open_run)
    assert isinstance(error, DamagedRecord)
    assert "the tail was cut" in str(error)
    assert verify_run(str(path), "last").exit_code == 4, "what is left is no worse for the try"


def test_a_last_commit_that_is_not_the_one_whose_digest_lies_beside_it_is_named(stage: Stage) -> None:
    """Here nothing else would tell: a run record has no digest of its own, and no commit follows."""
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:1") == KILLED
    path = Path(stage.store_path)
    ((only, _),) = commits(stage)
    assert isinstance(only, int)
    tamper(path, rewrite(path, only, lambda body: body.replace(b'"reenact_version":"0', b'"reenact_version":"9')))
    assert "commit 1: the body is not the one" in str(refused(stage))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE commits SET body = 'letters' WHERE id = (SELECT max(id) FROM commits)",
        "UPDATE commits SET body = CAST(x'ff00' AS TEXT) WHERE id = (SELECT max(id) FROM commits)",
        "UPDATE commits SET digest = 'letters' WHERE id = (SELECT max(id) FROM commits)",
        "UPDATE payloads SET body = 'letters'",
        "UPDATE payloads SET body = CAST(x'ff00' AS TEXT)",
        "UPDATE payloads SET body = 7",
    ],
)
def test_a_cell_of_another_type_is_damage_and_no_accident(change: str, open_run: Stage) -> None:
    tamper(Path(open_run.store_path), (change, ()))
    error = refused(open_run)
    assert isinstance(error, DamagedRecord) or isinstance(error.__cause__, DamagedRecord)


@pytest.mark.parametrize("cell", ["'letters'", "7", "CAST(x'ff00' AS TEXT)"])
def test_what_recovery_starts_from_is_damage_when_it_is_of_another_type(cell: str, open_run: Stage) -> None:
    change = f"INSERT INTO run_checkpoints (id, frontier) SELECT max(id), {cell} FROM commits"
    tamper(Path(open_run.store_path), (change, ()))
    error = refused(open_run)
    wanted = (ChecksumMismatch, DamagedRecord)
    assert isinstance(error, wanted) or isinstance(error.__cause__, wanted)


def test_a_run_that_is_called_ended_without_a_seal_is_not_reported_as_ended(open_run: Stage) -> None:
    tamper(Path(open_run.store_path), ("UPDATE runs SET status = 'completed'", ()))
    assert "does not end with a seal" in str(refused(open_run))


def test_a_run_that_is_as_it_was_written_goes_on(open_run: Stage) -> None:
    resume(open_run, "last")
    store = SqliteStore(open_run.store_path)
    assert store.find_run("last").status == "completed"
    store.close()
    resume(open_run, "last")
