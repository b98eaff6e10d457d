"""A store file that was prepared for whoever verifies it: `verify` reads it, and runs and changes nothing in it."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.checks.store_file import run_plan

TODAY = Path(__file__).parents[1] / "store" / "sqlite" / "today.db.gz"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sealed") / "store.db"
    run_plan(path)
    return path


@pytest.fixture
def path(sealed: Path, tmp_path: Path) -> Path:
    for part in ("", "-wal", ".key"):
        if Path(f"{sealed}{part}").exists():
            shutil.copy(f"{sealed}{part}", tmp_path / f"store.db{part}")
    return tmp_path / "store.db"


def reenact(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reenact", *words], capture_output=True, text=True, timeout=60, check=False
    )


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_a_table_that_is_a_view_is_seen_and_not_read(path: Path) -> None:
    """A view answers each question anew, and this one never ends."""
    forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, x'' AS body FROM n"
    change(path, "ALTER TABLE commits RENAME TO hidden", f"CREATE VIEW commits AS {forever}")
    done = reenact("verify", "last", "--store", str(path))
    assert done.returncode == 1, done.stderr
    assert "commits is a view" in done.stdout
    exported = reenact("export", "last", "--to", str(path.parent / "out"), "--store", str(path))
    assert exported.returncode != 0
    assert "commits is a view" in exported.stderr
    assert "Traceback" not in exported.stderr


def test_a_guard_that_does_nothing_is_told(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        (name,) = db.execute("SELECT min(name) FROM sqlite_master WHERE type = 'trigger'").fetchone()
        (table,) = db.execute("SELECT tbl_name FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    change(path, f"DROP TRIGGER {name}", f"CREATE TRIGGER {name} BEFORE DELETE ON {table} BEGIN SELECT 1; END")
    done = reenact("verify", "last", "--store", str(path))
    assert done.returncode == 0, done.stdout
    assert f"the trigger {name} is another than reenact made" in done.stdout


def test_a_trigger_of_his_own_is_told_and_does_not_fire(path: Path) -> None:
    change(path, "CREATE TRIGGER mine AFTER UPDATE ON runs BEGIN DELETE FROM seals; END")
    before = path.read_bytes()
    done = reenact("verify", "last", "--store", str(path))
    assert done.returncode == 0, done.stdout
    assert "the trigger mine is none of reenact's" in done.stdout
    assert path.read_bytes() == before


def old_store(folder: Path) -> Path:
    path = folder / "old.db"
    path.write_bytes(gzip.decompress(TODAY.read_bytes()))
    return path


def versions(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_an_earlier_schema_is_verified_and_stays_as_it_is(tmp_path: Path) -> None:
    path = old_store(tmp_path)
    version, digest = versions(path), hashlib.sha256(path.read_bytes()).hexdigest()
    done = reenact("verify", "last", "--store", str(path))
    assert done.returncode in (0, 4), done.stdout + done.stderr
    assert versions(path) == version
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert not list(tmp_path.glob("*.backup"))


def test_the_migration_of_an_earlier_schema_fires_nothing(tmp_path: Path) -> None:
    """What brings a copy up to date would fire what he left in it."""
    path = old_store(tmp_path)
    change(path, "CREATE TRIGGER mine AFTER UPDATE ON runs BEGIN DELETE FROM seals; END")
    done = reenact("verify", "last", "--store", str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the trigger mine is none of reenact's" in done.stderr


@pytest.mark.parametrize("name", ["x; DROP TABLE commits", 'x" ; DELETE FROM seals; --', "a\nb", "x'; rm -rf ~; '"])
def test_the_doctors_advice_does_not_carry_his_words(path: Path, name: str) -> None:
    """A name of a table is put into a command only where it is a name and nothing more."""
    quoted = name.replace('"', '""')
    change(path, f'CREATE TABLE "{quoted}" (a)')
    done = reenact("doctor", "--store", str(path))
    advice = [line for line in done.stdout.splitlines() if "sqlite3" in line]
    assert not any("DROP table" in line for line in advice)
    change(path, f'DROP TABLE "{quoted}"', "CREATE TABLE plain_name (a)")
    done = reenact("doctor", "--store", str(path))
    assert "DROP table plain_name" in done.stdout
