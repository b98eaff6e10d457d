"""A store's files are taken away while a run works on them: nothing is sent later than a second after that, and no run
ends as if it were on record."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import StoreError, StoreGone
from reenact.record.result import RunResult
from reenact.runtime import crash_points
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from reenact.store.doctor.examine import examine
from reenact.store.sqlite import store as store_module
from reenact.store.sqlite.store import WATCH_S, SqliteStore
from reenact.values.clock import SystemClock
from tests.crash.harness import in_child

STEPS = 40
STEP_S = 0.06
LATEST_S = 1.0


class World:
    """What is seen from outside: when each call arrived, and when the files went."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.store = self.folder / "store.db"
        self.ledger = folder / "ledger"
        self.gone_at = float("inf")
        self.ends = ("", "-wal")
        """Of the files that belong together."""
        self.lasts_s = STEP_S
        self.at: dict[str, Callable[[], object]] = {}
        """What happens in the middle of a call, by its name."""
        self.runtime = Runtime(self.store, skills=[self.skill()])

    def skill(self) -> object:
        @skill("act", version="1.0.0", tool_class="write", in_doubt="hold")
        def act(name: str) -> str:
            with self.ledger.open("a") as book:
                book.write(f"{name} {time.monotonic()}\n")
            self.at.get(name, lambda: None)()
            time.sleep(self.lasts_s)
            return name

        return act

    def sent(self) -> list[tuple[str, float]]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [(name, float(at)) for name, at in (line.split() for line in lines)]

    def take(self, how: str) -> None:
        TAKEN[how](self.store)
        if how in ("database, by another", "database, by a link"):
            self.ends = ("",)  # beside which the log is another's, or none
        self.gone_at = time.monotonic()

    def plan(self, steps: int = STEPS) -> RunResult:
        parts = [{"step_id": f"s{n}", "skill_id": "act", "parameters": {"name": f"s{n}"}} for n in range(steps)]
        return self.runtime.run({"plan_id": "p", "agent_id": "a", "steps": parts})

    def session(self, steps: int = STEPS) -> None:
        with self.runtime.session(goal="g") as session:
            for n in range(steps):
                session.call("act", {"name": f"s{n}"}, step_id=f"s{n}")

    def async_session(self, steps: int = STEPS) -> None:
        async def whole() -> None:
            async with self.runtime.session(goal="g") as session:
                for n in range(steps):
                    await session.call("act", {"name": f"s{n}"}, step_id=f"s{n}")

        asyncio.run(whole())


def unlink_log(store: Path) -> None:
    Path(f"{store}-wal").unlink()


def unlink_all(store: Path) -> None:
    for file in store.parent.glob("store.db*"):
        file.unlink()


def rename_database(store: Path) -> None:
    store.rename(store.with_name("away.db"))


def put_another_there(store: Path) -> None:
    copy = store.with_name("copy.db")
    shutil.copyfile(store, copy)
    copy.replace(store)


def move_and_link(store: Path) -> None:
    rename_database(store)
    store.symlink_to(store.with_name("away.db"))


def move_folder(store: Path) -> None:
    store.parent.rename(store.parent.with_name("elsewhere"))


def empty(end: str) -> Callable[[Path], None]:
    """In place, as `> FILE` does, and a copy over it in its first moment."""
    return lambda store: os.truncate(f"{store}{end}", 0)


TAKEN: dict[str, Callable[[Path], None]] = {
    "log": unlink_log,
    "log, emptied": empty("-wal"),
    "database, emptied": empty(""),
    "index": lambda store: Path(f"{store}-shm").unlink(),
    "database": Path.unlink,
    "all files": unlink_all,
    "database, by rename": rename_database,
    "database, by a link": move_and_link,
    "database, by another": put_another_there,
    "folder": move_folder,
    "folder, deleted": lambda store: shutil.rmtree(store.parent),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


WAYS = {"plan": World.plan, "session": World.session, "async session": World.async_session}


def check(world: World, gone: StoreError) -> None:
    """Nothing was sent late, and what is not on record is named."""
    assert isinstance(gone, StoreGone)
    assert (gone.code, gone.exit_code) == ("STORE_GONE", 3)
    assert "\n" not in str(gone)
    late = [name for name, at in world.sent() if at > world.gone_at + LATEST_S]
    assert late == []
    on_record = recorded(world.store, world.ends)
    named = str(gone).partition("not on record: ")[2].replace(",", " ").split()
    assert set(named) == {name for name, _ in world.sent()} - on_record


def recorded(store: Path, ends: tuple[str, ...]) -> set[str]:
    """Steps whose effect a stranger finds where the store was."""
    if not store.exists() or store.stat().st_size == 0:
        return set()
    copy = store.with_name("looked-at.db")
    for end in ends:
        if Path(f"{store}{end}").exists():
            shutil.copyfile(f"{store}{end}", f"{copy}{end}")
    try:
        looked = SqliteStore(str(copy), to_read=True)
        return {
            outcome.step_id
            for row in looked.runs()
            for outcome in RunResult(row.run_id, row.status, looked).outcomes
            if outcome.status == "success"
        }
    finally:
        for file in copy.parent.glob("looked-at.db*"):
            file.unlink()


@pytest.mark.parametrize(
    ("way", "how"),
    [
        *(("plan", how) for how in TAKEN),
        *(("session", how) for how in ("log", "log, emptied", "all files", "folder")),
        *(("async session", how) for how in ("log", "database")),
    ],
)
def test_between_two_steps(way: str, how: str, world: World) -> None:
    timer = threading.Timer(0.4, world.take, [how])
    timer.start()
    with pytest.raises(StoreError) as stopped:
        WAYS[way](world)
    timer.join()
    assert len(world.sent()) < STEPS
    check(world, stopped.value)


@pytest.mark.parametrize("how", ["log", "all files"])
@pytest.mark.parametrize("way", WAYS)
def test_before_the_first_commit(way: str, how: str, world: World) -> None:
    world.take(how)
    with pytest.raises(StoreError) as stopped:
        WAYS[way](world)
    check(world, stopped.value)


@pytest.mark.parametrize("how", ["log", "log, emptied", "database, emptied", "all files", "folder"])
@pytest.mark.parametrize("way", WAYS)
def test_during_a_long_call(way: str, how: str, world: World) -> None:
    world.lasts_s = 0.5
    world.at["s0"] = lambda: world.take(how)
    with pytest.raises(StoreError) as stopped:
        WAYS[way](world)
    assert [name for name, _ in world.sent()] == ["s0"]
    check(world, stopped.value)


@pytest.mark.parametrize("how", ["log", "log, emptied", "all files", "database, by another"])
@pytest.mark.parametrize("way", WAYS)
def test_all_of_it_before_the_seal_of_a_run_that_is_over_in_a_moment(
    way: str, how: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lasts_s = 0.0
    reach = crash_points.reach

    def take(point: str) -> None:
        if point == "before_seal":
            world.take(how)
        reach(point)

    for module in ("plans.plan_run", "session.closing"):
        monkeypatch.setattr(f"reenact.runtime.{module}.reach", take)
    with pytest.raises(StoreError) as stopped:
        WAYS[way](world, 3)
    assert len(world.sent()) == 3
    check(world, stopped.value)


def die_where_it_is_taken(world: World, how: str) -> str:
    """What a process was told before it ended."""
    told = world.ledger.with_name("told")

    def run() -> None:
        own = World(world.folder.parent)
        own.at["s2"] = lambda: (own.take(how), time.sleep(WATCH_S))
        try:
            own.plan(6)
        except StoreGone as gone:
            told.write_text(str(gone))
        own.runtime.close()

    world.runtime.close()
    assert in_child(run) == 0
    return told.read_text()


def goes_on(world: World) -> None:
    again = Runtime(world.store, skills=[world.skill()])
    (result,) = again.recover()
    assert result.status == "held", "the answer of s2 was never written: a person looks whether it was done"
    assert asyncio.run(people.resolve(again, result.run_id, "s2", "succeeded", reason="looked", output="s2"))
    result = again.resume(result.run_id)
    assert result.status == "completed"
    assert verify_run(str(world.store), result.run_id).exit_code == 0
    assert [name for name, _ in world.sent()] == [f"s{n}" for n in range(6)]
    again.close()


def test_a_log_that_was_deleted_is_saved_into_the_database_and_the_run_goes_on_from_there(world: World) -> None:
    told = die_where_it_is_taken(world, "log")
    assert "were saved into" in told
    assert told.endswith("done, and not on record: s2")
    goes_on(world)


def test_a_folder_that_comes_back_lets_the_run_go_on(world: World) -> None:
    assert "put the file back" in die_where_it_is_taken(world, "folder")
    world.folder.with_name("elsewhere").rename(world.folder)
    goes_on(world)


def test_a_vote_and_a_lease_are_not_written_where_nobody_sees_them(world: World) -> None:
    result = world.plan(1)
    world.take("database, by rename")
    for act in (
        lambda: world.runtime.store.request_cancel(result.run_id, "{}"),
        lambda: world.runtime.store.acquire(result.run_id, "somebody"),
        lambda: world.runtime.store.cast_vote(result.run_id, "t", b"{}", settles=False),
    ):
        with pytest.raises(StoreGone):
            act()


def copied_over(store: Path, backup: Path) -> None:
    """As `cp` does it: the same file, with another content."""
    with backup.open("rb") as old, store.open("r+b") as file:
        file.write(old.read())
        file.truncate()


def sql(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store)) as db:
        db.execute(statement)


@pytest.mark.parametrize("is_lost", [True, False], ids=["commits are lost", "the log has them all"])
def test_a_backup_that_is_copied_over_it(world: World, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool) -> None:
    """Nothing more is sent where commits are gone; where all of them lie in the log, nothing is."""
    monkeypatch.setattr(store_module, "WATCH_S", 0.0)
    world.lasts_s = 0.0
    backup = world.folder / "backup.db"
    world.at["s5"] = lambda: sql(world.store, f"VACUUM INTO '{backup}'")
    if is_lost:  # what was written meanwhile is in the database, and the log begins again
        world.at["s15"] = lambda: sql(world.store, "PRAGMA wal_checkpoint(RESTART)")
    world.at["s20"] = lambda: copied_over(world.store, backup)
    if not is_lost:
        world.session(30)
        return
    with pytest.raises(StoreError):
        world.session(30)
    assert [name for name, _ in world.sent()] == [f"s{n}" for n in range(21)]


def test_an_index_that_is_emptied_may_end_the_process_and_nothing_that_was_recorded(world: World) -> None:
    """SQLite has it in its memory: what is read behind its end is a signal, which nobody can catch."""
    world.at["s2"] = lambda: os.truncate(f"{world.store}-shm", 0)

    def work() -> None:
        faulthandler.disable()  # of pytest's, in the child alone
        world.runtime = Runtime(world.store, skills=[world.skill()])
        with suppress(StoreError):
            world.plan(6)

    world.runtime.close()
    assert in_child(work) in (0, signal.SIGBUS)
    assert [name for name, _ in world.sent()] == ["s0", "s1", "s2"]
    world.at.clear()
    goes_on(world)


def test_a_reader_that_is_opened_late_makes_no_new_store(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "store.db"))
    unlink_all(tmp_path / "store.db")
    with pytest.raises(StoreGone):
        store.runs()
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_log_was_taken_from_a_dead_process_is_not_opened_as_if_nothing_had_been(tmp_path: Path) -> None:
    store = tmp_path / "store.db"

    def write_and_die() -> None:
        with SqliteStore(str(store))._writer.transaction() as db:
            db.execute("INSERT INTO store VALUES ('x', 'y')")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(write_and_die) == signal.SIGKILL
    log = Path(f"{store}-wal")
    log.rename(tmp_path / "log")
    for to_read in (False, True):
        with pytest.raises(StoreError, match=f"{log} was taken away"):
            SqliteStore(str(store), to_read=to_read)
        told = examine(str(store), SystemClock())[0]  # and leaves the trace of it where it is
        assert (told.subject, told.verdict) == ("store", "trouble")
        assert told.says.startswith(f"{log} was taken away")
    assert not log.exists()
    (tmp_path / "log").rename(log)
    assert SqliteStore(str(store))._writer.query("SELECT value FROM store WHERE key = 'x'") == [("y",)]


def test_an_index_that_was_left_alone_keeps_nobody_from_a_database_that_has_all_commits(tmp_path: Path) -> None:
    store = tmp_path / "store.db"

    def write_and_die() -> None:
        writer = SqliteStore(str(store))._writer
        writer.query("PRAGMA wal_checkpoint(TRUNCATE)")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(write_and_die) == signal.SIGKILL
    Path(f"{store}-wal").unlink()
    assert SqliteStore(str(store)).runs() == []
