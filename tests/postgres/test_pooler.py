"""The tests' own pooler sets the traps that any transaction pooler sets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import psycopg
import pytest

from tests.postgres.pooler import Pooler
from tests.postgres.server import Server


@pytest.fixture
def pooler(postgres: Server) -> Iterator[Pooler]:
    with Pooler(postgres) as between:
        yield between


def connect(pooler: Pooler, server: Server, **more: object) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(pooler.url_of(server.url()), autocommit=True, prepare_threshold=None, **more)  # type: ignore[arg-type]


def pid_of(db: psycopg.Connection[tuple[object, ...]]) -> object:
    (found,) = db.execute("SELECT pg_backend_pid()").fetchone() or ()
    return found


def test_each_transaction_is_served_by_another_backend_and_one_stays_with_its_own(
    pooler: Pooler, postgres: Server
) -> None:
    with connect(pooler, postgres) as db, connect(pooler, postgres) as other:
        with other.transaction():
            mine = pid_of(other)
            assert {pid_of(db) for _ in range(4)} != {mine}
            assert pid_of(other) == mine
        pids = [pid_of(db) for _ in range(6)]
        assert len(set(pids)) == 2
        assert all(one != next_one for one, next_one in pairwise(pids))
    assert pooler.transactions >= 11


def test_no_more_backends_serve_than_there_are_and_whoever_comes_waits(pooler: Pooler, postgres: Server) -> None:
    answers: list[object] = []

    def work() -> None:
        with connect(pooler, postgres) as db:
            answers.extend(db.execute("SELECT pg_backend_pid(), pg_sleep(0.01)").fetchone()[0] for _ in range(5))  # type: ignore[index]

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 40
    assert len(set(answers)) == 2


def test_a_setting_and_a_prepared_statement_stay_behind_with_a_backend(pooler: Pooler, postgres: Server) -> None:
    with connect(pooler, postgres) as db:
        db.execute("SET statement_timeout = 4321")
        seen = [db.execute("SHOW statement_timeout").fetchone() for _ in range(2)]
        assert sorted(map(str, seen)) == ["('0',)", "('4321ms',)"]
        db.execute("PREPARE mine AS SELECT 'mine'")
    with connect(pooler, postgres) as other:
        other.execute("SELECT 1")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            other.execute("EXECUTE mine")
        assert other.execute("EXECUTE mine").fetchone() == ("mine",)  # another client's


def test_startup_options_are_refused(pooler: Pooler, postgres: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        connect(pooler, postgres, options="-c statement_timeout=5")


def test_whoever_goes_in_the_middle_of_a_transaction_has_it_rolled_back(pooler: Pooler, postgres: Server) -> None:
    postgres.execute("CREATE TABLE IF NOT EXISTS half (n int)", database="reenact", role="reenact")
    db = connect(pooler, postgres)
    db.execute("BEGIN")
    db.execute("INSERT INTO half VALUES (1)")
    db.close()
    with connect(pooler, postgres) as other:
        for _ in range(3):
            with other.transaction():
                other.execute("LOCK TABLE half")
                assert other.execute("SELECT count(*) FROM half").fetchone() == (0,)


def test_rows_in_bulk_and_pipelines_pass(pooler: Pooler, postgres: Server) -> None:
    with connect(pooler, postgres) as db:
        large = "x" * 5_000_000
        assert db.execute("SELECT length(%s), %s::text", (large, large)).fetchone() == (len(large), large)
        with db.pipeline():
            cursors = [db.execute("SELECT %s::int", (number,)) for number in range(50)]
            assert [cursor.fetchone() for cursor in cursors] == [(number,) for number in range(50)]


def test_a_server_that_ends_ends_the_clients_it_serves() -> None:
    with Server() as server, Pooler(server) as pooler:
        db = connect(pooler, server)
        db.execute("BEGIN")
        server.restart("immediate")
        with pytest.raises(psycopg.OperationalError):
            db.execute("SELECT 1")
