"""The tests' own servers do what tests rely on, and none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.postgres import binaries
from tests.postgres.fixtures import schema_at
from tests.postgres.server import OWNER, SIGNALS, Server

KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tests.postgres.server import Server
server = Server()
print(server.folder, server._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until_gone(folder: Path, pid: int) -> None:
    until = time.monotonic() + 20
    while folder.exists() or is_running(pid):
        assert time.monotonic() < until, (folder, pid)
        time.sleep(0.02)


def test_a_server_is_of_the_version_asked_for_and_reached_with_a_password_by_one_who_is_no_superuser(
    any_server: Server,
) -> None:
    with psycopg.connect(any_server.url()) as db:
        (number, role, is_super) = (
            db.execute(
                "SELECT current_setting('server_version_num'), current_user, current_setting('is_superuser')"
            ).fetchone()
            or ()
        )
    assert (int(number) // 10_000, role, is_super) == (any_server.binaries.major, OWNER, "off")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(any_server.url().replace(any_server.password, "wrong"))


def test_a_server_that_is_stopped_and_started_again_has_what_was_committed_at_the_same_url() -> None:
    with Server() as server:
        for mode in SIGNALS:
            with psycopg.connect(server.url()) as db:
                db.execute(f"CREATE TABLE kept_{mode} AS SELECT 1 AS one")
            server.restart(mode)
            with psycopg.connect(server.url()) as db:
                assert db.execute(f"SELECT one FROM kept_{mode}").fetchall() == [(1,)]
        folder, pid = server.folder, server._process.pid  # type: ignore[union-attr]
    assert not folder.exists()
    assert not is_running(pid)


def test_a_server_ends_with_the_process_that_started_it_also_when_that_is_killed(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    folder, pid = done.stdout.split()
    until_gone(Path(folder), int(pid))


def test_binaries_that_the_servers_user_may_not_reach_are_copied(tmp_path: Path) -> None:
    """As in a home directory of root: nobody but its owner may enter the folder that they lie in."""
    closed = tmp_path / "closed"
    found = binaries.of_the_wheel()[0]
    inside = found.usable_copy(closed)
    closed.chmod(0o700)
    out_of_reach = os.getuid() == 0
    assert (binaries.version(inside.folder) is None) == out_of_reach
    with Server(inside) as server:
        assert server.binaries.folder.is_relative_to(server.folder) == out_of_reach
        assert server.execute("SELECT 1") == [(1,)]


def test_a_backend_that_is_stopped_answers_when_it_goes_on(postgres: Server) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute("SELECT 1")
        pid = db.info.backend_pid
        assert pid in postgres.backends()
        with postgres.stopped(pid):
            db.pgconn.send_query(b"SELECT 2")
            time.sleep(0.05)
            db.pgconn.consume_input()
            assert db.pgconn.is_busy()
        result = db.pgconn.get_result()
        assert result is not None
        assert result.get_value(0, 0) == b"2"
        while db.pgconn.get_result() is not None:
            pass


def test_what_a_test_makes_in_its_schema_is_taken_away(postgres: Server) -> None:
    with schema_at(postgres.url()) as url:
        name = url.rpartition("schema=")[2]
        postgres.execute(f"CREATE SCHEMA {name} CREATE TABLE {name}.rows (n int)", database="reenact", role=OWNER)
    assert postgres.execute("SELECT nspname FROM pg_namespace WHERE nspname = %s", name, database="reenact") == []


def test_the_fixture_gives_a_store_of_each_engine_that_is_not_there_yet(store_url: str) -> None:
    assert store_url.partition("://")[0] in ("sqlite", "postgresql")
    assert store_url.startswith("sqlite:///") or "?schema=test_" in store_url
