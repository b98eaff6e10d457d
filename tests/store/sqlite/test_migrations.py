"""A schema is brought up to date after a backup; one from the future is refused and left alone."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import StoreError, StoreUnavailable, StoreVersionError
from reenact.store.sqlite import migrations
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import in_child


@skill("look", version="1.0.0", tool_class="read")
async def look(q: str) -> str:
    return q


PLAN = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "look", "parameters": {"q": "x"}}]}


def test_an_upgrade_keeps_a_backup_that_still_opens_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=Registry([look]))
    run_id = runtime.run(PLAN).run_id
    runtime.close()
    known = migrations.migrations()
    newer = [*known, (known[-1][0] + 1, "CREATE TABLE later (x TEXT);\n")]
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "migrations", lambda: newer)
        upgraded = SqliteStore(str(path))
        assert upgraded.find_run(run_id).status == "completed"
        upgraded.close()
    backup = tmp_path / f"store.db.schema-{known[-1][0]}.backup"
    assert SqliteStore(str(backup)).find_run(run_id).status == "completed"
    with pytest.raises(StoreVersionError, match="upgrade reenact"):
        SqliteStore(str(path))
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM later").fetchone() == (0,)


def test_the_schema_is_the_sum_of_its_numbered_migrations() -> None:
    numbers = [number for number, _ in migrations.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert migrations.latest() == numbers[-1]


def foreign(path: Path, *pragmas: str) -> bytes:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE customers (name TEXT)")
        db.execute("INSERT INTO customers VALUES ('ann')")
        for pragma in pragmas:
            db.execute(f"PRAGMA {pragma}")
    return path.read_bytes()


@pytest.mark.parametrize(
    "pragmas",
    [
        (),
        ("user_version = 1",),
        (f"user_version = {migrations.latest()}",),
        ("user_version = 7000",),
        ("application_id = 5",),
    ],
)
@pytest.mark.parametrize("to_read", [False, True])
def test_a_database_of_something_else_is_refused_and_left_as_it_is(
    tmp_path: Path, pragmas: tuple[str, ...], to_read: bool
) -> None:
    path = tmp_path / "customers.db"
    before = foreign(path, *pragmas)
    with pytest.raises(StoreUnavailable, match="no store of reenact"):
        SqliteStore(str(path), to_read=to_read)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_an_empty_database_with_the_mark_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA application_id = 77")
    with pytest.raises(StoreUnavailable, match="no store of reenact"):
        SqliteStore(str(path))


def older(path: Path, version: int) -> None:
    """A store as it was made when this schema was the newest."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for number, script in migrations.migrations()[:version]:
            db.executescript(f"{script}\nPRAGMA user_version = {number};")


@pytest.mark.parametrize("version", [number for number, _ in migrations.migrations()[:-1]])
def test_a_store_of_every_earlier_schema_becomes_one_of_this(tmp_path: Path, version: int) -> None:
    path = tmp_path / "store.db"
    older(path, version)
    SqliteStore(str(path)).close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (migrations.latest(),)
        assert db.execute("PRAGMA application_id").fetchone() == (migrations.APPLICATION_ID,)
    assert (tmp_path / f"store.db.schema-{version}.backup").exists()


def test_a_backup_is_its_owners_alone_and_is_not_replaced_by_one_of_what_came_after(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    older(path, 1)
    path.chmod(0o600)
    before = os.umask(0)
    try:
        slow = sqlite3.connect(path, isolation_level=None)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(migrations, "version_of", faster(path, migrations.version_of))
            migrations.migrate(slow, str(path))
        slow.close()
    finally:
        os.umask(before)
    backup = tmp_path / "store.db.schema-1.backup"
    assert backup.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert sorted(item.name for item in tmp_path.iterdir() if "backup" in item.name) == [backup.name]


def faster(path: Path, version_of: Callable[[sqlite3.Connection], int]) -> Callable[[sqlite3.Connection], int]:
    """Another process upgrades the store right after this one saw that it is old."""
    seen: list[int] = []

    def looked(db: sqlite3.Connection) -> int:
        version = version_of(db)
        if not seen:
            seen.append(version)
            SqliteStore(str(path)).close()
        return version

    return looked


def test_an_upgrade_without_room_for_its_backup_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    older(path, 1)

    def upgrade() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, resource.RLIM_INFINITY))
        with pytest.raises(StoreError):
            SqliteStore(str(path))

    assert in_child(upgrade) == 0
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    assert not [item.name for item in tmp_path.iterdir() if "backup" in item.name], "half a backup is none"
