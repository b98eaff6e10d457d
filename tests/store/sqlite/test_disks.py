"""Files and disks that cannot be used: each has its code, one clear line, and nothing is lost."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from pathlib import Path
from types import SimpleNamespace as Namespace

import pytest

from reenact.errors import ReenactError, StoreError, StoreUnavailable, StoreVersionError, UsageError
from reenact.store.doctor.examine import examine
from reenact.store.sqlite.store import SqliteStore
from reenact.store.sqlite.trouble.database_errors import translate
from reenact.store.sqlite.trouble.waiting import Patience
from reenact.values.clock import SystemClock
from tests.crash.harness import Stage, check_survived, in_child, look, recover
from tests.store.sqlite.powerless import give_up_powers, reopen, shut


def refusal(url: str | Path) -> ReenactError:
    with pytest.raises(ReenactError) as refused:
        SqliteStore(str(url)).signing_key  # noqa: B018  # reading it is the act
    assert "\n" not in str(refused.value)
    return refused.value


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert (error.code, error.exit_code) == ("STORE_UNAVAILABLE", 3)
    assert "is a folder" in str(error)


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "file" / "store.db").code == "STORE_UNAVAILABLE"


def test_no_database_at_all(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 1000)
    error = refusal(path)
    assert (error.code, error.exit_code) == ("STORE_UNAVAILABLE", 3)
    assert "not a database" in str(error)
    assert path.read_text() == "Dear reader, " * 1000, "what is no store is never written to"


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    assert SqliteStore(str(tmp_path / "store.db")).runs() == []


def test_a_store_from_the_future_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(str(path)).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 999")
    error = refusal(path)
    assert isinstance(error, StoreVersionError)
    assert error.exit_code == 3
    assert "999" in str(error)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (999,)


@pytest.mark.parametrize("url", ["postgres://x/y", "sqlite:///", "mysql://"])
def test_a_url_that_names_no_store(url: str) -> None:
    error = refusal(url)
    assert isinstance(error, UsageError)
    assert error.exit_code == 2


def test_a_damaged_key_is_named_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert SqliteStore(str(path)).signing_key.kid
    key = Path(f"{path}.key")
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_text("nonsense")
    assert "key" in str(refusal(path))
    assert key.read_text() == "nonsense"


def test_a_read_only_store_can_not_be_written_and_says_so(stage: Stage) -> None:
    stage.runtime().run(stage.plan())
    before = look(stage)
    shut(stage.folder)

    def write() -> None:
        give_up_powers()
        with pytest.raises(StoreUnavailable) as refused:
            stage.runtime().run(stage.plan())
        assert (refused.value.code, refused.value.exit_code) == ("STORE_UNAVAILABLE", 3)
        assert "\n" not in str(refused.value)

    assert in_child(write) == 0
    reopen(stage.folder)
    assert look(stage).runs.keys() == before.runs.keys()


@pytest.mark.parametrize(("free", "said"), [(0, "the disk is full; free some space"), (2**30, "reports an error")])
def test_a_log_that_finds_no_room_is_a_full_disk_and_no_broken_one(
    free: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    monkeypatch.setattr("shutil.disk_usage", lambda _: Namespace(free=free))
    assert said in str(translate(error, str(tmp_path / "store.db")))


def store_is_full(stage: Stage, steps: int) -> None:
    """The database may not grow any more after some steps: SQLITE_FULL, as from a full disk."""
    runtime = stage.runtime()
    store = runtime.store
    assert isinstance(store, SqliteStore)
    pages = store._writer.query("PRAGMA page_count")[0][0]
    store._writer.query(f"PRAGMA max_page_count = {pages + steps}")
    with pytest.raises(StoreUnavailable, match="the disk is full") as refused:
        runtime.run(long_plan(stage))
    assert refused.value.exit_code == 3


def long_plan(stage: Stage) -> dict[str, object]:
    plan = stage.plan()
    plan["steps"] = [
        {"step_id": f"s{n}", "skill_id": "act", "parameters": {"ledger": stage.ledger_path, "value": n}}
        for n in range(60)
    ]
    return plan


@pytest.mark.parametrize("pages", [0, 1, 5, 20])
def test_a_full_disk_loses_nothing_and_the_run_goes_on_when_there_is_room(pages: int, stage: Stage) -> None:
    assert in_child(lambda: store_is_full(stage, pages)) == 0
    before = look(stage)
    recover(stage)
    check_survived(stage, before)
    assert len(before.runs) in (0, 1)


@pytest.mark.parametrize("room", [150_000, 300_000])
def test_a_write_error_in_the_middle_of_a_commit_loses_nothing(room: int, stage: Stage) -> None:
    stage.runtime().close()

    def write_until_it_fails() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        runtime = stage.runtime()
        with pytest.raises(StoreError) as refused:
            for _ in range(50):
                runtime.run(long_plan(stage))
        assert refused.value.exit_code == 3
        assert "\n" not in str(refused.value)

    assert in_child(write_until_it_fails) == 0
    before = look(stage)
    assert before.runs
    recover(stage)
    check_survived(stage, before)


def test_a_new_store_is_readable_by_its_owner_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "private.db"
    before = os.umask(0)
    try:
        store = SqliteStore(str(path))
        with store._writer.transaction():
            modes = {item.name: item.stat().st_mode & 0o777 for item in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert path.name in modes
    assert f"{path.name}-wal" in modes
    assert set(modes.values()) == {0o600}
    path.chmod(0o640)
    SqliteStore(str(path)).close()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("word", [b"CREATE TABLE store", b"commits_are_not_replaced", b"CREATE INDEX runs_by_status"])
def test_a_schema_that_is_no_text_any_more_is_damage_told_in_one_line(word: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(str(path)).close()
    data = path.read_bytes()
    assert word in data
    at = data.index(word) + 4
    path.write_bytes(data[:at] + b"\xd4" + data[at + 1 :])
    assert "it is damaged" in str(refusal(path))
    with pytest.raises(StoreUnavailable, match="it is damaged"):
        SqliteStore(str(path), to_read=True)
    looked = examine(str(path), SystemClock())
    assert any("it is damaged" in finding.says for finding in looked)


def test_a_log_whose_locks_sqlite_gave_up_on_is_waited_for_as_any_other(tmp_path: Path) -> None:
    """`locking protocol`: a process that stands still has the lock under which a log is opened."""
    tries = []

    def opened() -> str:
        tries.append(None)
        if len(tries) < 3:
            given_up = sqlite3.OperationalError("locking protocol")
            given_up.sqlite_errorname = "SQLITE_PROTOCOL"
            raise given_up
        return "open"

    assert Patience(str(tmp_path / "store.db")).wait_for(opened) == "open"
