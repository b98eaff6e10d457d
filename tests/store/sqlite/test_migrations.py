"""A schema is brought up to date after a backup; one from the future is refused and left alone."""

from __future__ import annotations

import gzip
import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import KeyUnavailable, StoreError, StoreUnavailable, StoreVersionError
from reenact.store.checks.verification import verify_run
from reenact.store.doctor.examine import examine
from reenact.store.keys.keeping import replace_key
from reenact.store.sqlite import migrations
from reenact.store.sqlite.read_only import refuse_other_schema
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import SystemClock
from tests.crash.harness import folded, in_child
from tests.store.checks.store_file import REGISTRY

TODAY = Path(__file__).with_name("today.db.gz")


@skill("look", version="1.0.0", tool_class="read")
async def look(q: str) -> str:
    return q


PLAN = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "look", "parameters": {"q": "x"}}]}


LATER = "CREATE TABLE later (x TEXT);\n"


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of reenact with one schema more than this one has."""
    known = migrations.migrations()
    monkeypatch.setattr(migrations, "migrations", lambda: [*known, (known[-1][0] + 1, LATER)])


def made(path: Path) -> str:
    """A store with one run; its id."""
    runtime = Runtime(str(path), skills=Registry([look]))
    run_id = runtime.run(PLAN).run_id
    runtime.close()
    return run_id


def test_an_upgrade_keeps_a_backup_that_still_opens_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    run_id = made(path)
    known = migrations.migrations()
    newer = [*known, (known[-1][0] + 1, LATER)]
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
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert migrations.latest() == numbers[-1]


def test_a_store_that_was_made_before_the_schema_was_one_file_goes_on(tmp_path: Path) -> None:
    """`today.db.gz` was made when the schema was the sum of seven files: a run that is sealed, of which a step was
    erased, and one that was killed before its seal. It has no key secret, and keys that were made without one."""
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress(TODAY.read_bytes()))
    with SqliteStore(str(path), to_read=True).evidence() as evidence:
        assert evidence.key_secret() is None
    store = SqliteStore(str(path))
    assert len(store.key_secret) == 32
    killed, sealed = (row.run_id for row in store.runs())
    assert [item.name for item in tmp_path.glob("*.backup")] == ["store.db.schema-7.backup"]
    assert verify_run(str(path), sealed).exit_code == 0
    assert verify_run(str(path), killed).exit_code == 4
    findings = examine(str(path), SystemClock())
    assert ("ok", f"version {migrations.latest()}") in {(found.verdict, found.says) for found in findings}
    runtime = Runtime(str(path), skills=REGISTRY)
    with pytest.raises(KeyUnavailable):  # its key was not kept
        runtime.resume(killed)
    ((done,), _) = replace_key(runtime.store, who="ops", reason="it was not kept")
    assert [run[0] for run in done.runs] == [killed]
    assert runtime.resume(killed).status == "completed"
    runtime.close()
    assert verify_run(str(path), killed).exit_code == 0
    keys = [(trace.trace_id, trace.call) for trace in folded(killed, list(store.bodies(killed)))[1]]
    assert keys
    assert all(call is not None and call.idempotency_key == trace_id for trace_id, call in keys)


def test_a_schema_of_before_the_first_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    made(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 3")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="has schema 3"):
        SqliteStore(str(path))
    assert [found.says for found in examine(str(path), SystemClock()) if found.verdict == "trouble"] == [
        (
            f"{path} has schema 3, of before the first release, and this version of reenact reads "
            f"{migrations.migrations()[0][0]} and later: keep the file for what it "
            "tells, and name another one with --store"
        )
    ]
    assert path.read_bytes() == before


FIRST_DAYS = (
    "CREATE TABLE runs (run_no INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL)",
    "CREATE TABLE commits (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    *(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)" for name in ("payloads", "traces", "idempotency", "seals")),
)
"""As the very first stores were made: nothing says whose the file is, and commits have no digest."""


@pytest.mark.parametrize("to_read", [False, True])
@pytest.mark.parametrize("version", [1, 2, 7])
def test_a_store_of_the_first_days_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, version: int, to_read: bool
) -> None:
    """Also one that an early version had brought to schema 7: it would be brought to today's, and then fail."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as db, db:
        for statement in FIRST_DAYS:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")
        db.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID if version == 7 else 0}")
    with pytest.raises(StoreVersionError, match=f"schema {version}") as refused:
        SqliteStore(str(path), to_read=to_read)
    assert "before the first release" in str(refused.value)
    assert "\n" not in str(refused.value)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone()
    assert not list(tmp_path.glob("*.backup*"))


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


def test_a_backup_is_its_owners_alone_and_is_not_replaced_by_one_of_what_came_after(
    tmp_path: Path, newer: None
) -> None:
    path = tmp_path / "store.db"
    version = older(path)
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
    backup = tmp_path / f"store.db.schema-{version}.backup"
    assert backup.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
    assert sorted(item.name for item in tmp_path.iterdir() if "backup" in item.name) == [backup.name]


def older(path: Path) -> int:
    """A store as it was made when the schema before was the newest; its version."""
    with pytest.MonkeyPatch.context() as patched:
        known = migrations.migrations()[:-1]
        patched.setattr(migrations, "migrations", lambda: known)
        SqliteStore(str(path)).close()
    return known[-1][0]


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


def test_an_upgrade_without_room_for_its_backup_changes_nothing(tmp_path: Path, newer: None) -> None:
    path = tmp_path / "store.db"
    version = older(path)

    def upgrade() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, resource.RLIM_INFINITY))
        with pytest.raises(StoreError):
            SqliteStore(str(path))

    assert in_child(upgrade) == 0
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
    assert not [item.name for item in tmp_path.iterdir() if "backup" in item.name], "half a backup is none"


def test_an_older_schema_is_not_read_where_it_cannot_be_brought_up_to_date(tmp_path: Path, newer: None) -> None:
    path = tmp_path / "store.db"
    version = older(path)
    with (
        closing(sqlite3.connect(path)) as db,
        pytest.raises(StoreVersionError, match=f"cannot be brought to {version + 1} where nothing can be written"),
    ):
        refuse_other_schema(db, str(path))


def test_what_a_killed_migration_left_goes_with_the_next_one_and_nothing_else(tmp_path: Path, newer: None) -> None:
    path = tmp_path / "store.db"
    version = older(path)
    of_others = {tmp_path / f"store.db.schema-{version}.backup.mine", tmp_path / f"other.db.schema-{version}.backup.7"}
    for file in of_others:
        file.write_text("")

    def die_while_copying() -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Path, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            SqliteStore(str(path))

    assert in_child(die_while_copying) == signal.SIGKILL
    left = {*tmp_path.glob("store.db.schema-*.backup.*")} - of_others
    assert left, "it was killed too early"
    SqliteStore(str(path)).close()
    assert {*tmp_path.glob("*.backup.*")} == of_others
    assert (tmp_path / f"store.db.schema-{version}.backup").exists()
