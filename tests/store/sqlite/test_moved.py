"""A store whose file is taken away: from its log, or from a run that works on it. No commit is lost without a word."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from reenact.errors import StoreUnavailable
from reenact.store.sqlite.store import SqliteStore
from tests.cli.harness import Command
from tests.crash.harness import KILLED, Stage, check_survived, in_child, look, recover


def killed(stage: Stage) -> Path:
    """The store of a run that was killed: its commits lie in the log alone."""
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at="after_dispatch:2") == KILLED
    assert Path(f"{stage.store_path}-wal").stat().st_size > 0
    return Path(stage.store_path)


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_log_whose_file_was_moved_away_is_kept_and_told_and_is_whole_when_it_comes_back(
    left: str, stage: Stage
) -> None:
    path = killed(stage)
    away = path.with_name("away.db")
    path.rename(away)
    if left == "an empty file":
        path.touch()
    log = Path(f"{path}-wal").read_bytes()
    for to_read in (False, True):
        with pytest.raises(StoreUnavailable, match="put the file back"):
            SqliteStore(str(path), to_read=to_read)
    assert Path(f"{path}-wal").read_bytes() == log
    away.replace(path)
    before = look(stage)
    assert sum(len(run.bodies) for run in before.runs.values()) > 0
    recover(stage)
    check_survived(stage, before)


@pytest.mark.parametrize("command", [("recover",), ("ls",), ("verify", "last"), ("doctor",)])
def test_no_command_takes_a_log_without_its_file_for_an_empty_store(
    command: tuple[str, ...], stage: Stage, tmp_path: Path
) -> None:
    path = killed(stage)
    path.rename(path.with_name("away.db"))
    done = Command(tmp_path)(*command, "--store", str(path))
    assert done.code == 3
    assert f"{path}-wal" in done.out + done.err


def test_a_lease_of_a_file_that_was_moved_is_not_renewed(stage: Stage) -> None:
    path = killed(stage)
    store = SqliteStore(str(path))
    lease = store.acquire(next(iter(look(stage).runs)), "somebody")
    assert store.renew([lease])
    away = path.with_name("away.db")
    path.rename(away)
    with pytest.raises(StoreUnavailable, match="moved"):
        store.renew([lease])
    path.touch()
    with pytest.raises(StoreUnavailable, match="replaced"):
        store.renew([lease])
    away.replace(path)
    assert store.renew([lease])
    store.close()


def test_a_store_stays_where_it_was_opened_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("store.db")
    os.chdir("elsewhere")
    reader = threading.Thread(target=store.runs)  # a thread has a connection of its own
    reader.start()
    reader.join()
    store.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
