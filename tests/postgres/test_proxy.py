"""The tests' own proxy breaks where it is told to, and nowhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres.proxy import Proxy
from tests.postgres.server import Server


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres.url()) as between:
        yield between


@pytest.fixture
def table(postgres: Server) -> Iterator[str]:
    name = "written"
    postgres.execute(f"CREATE TABLE {name} (n int)", database="reenact", role="reenact")
    yield name
    postgres.execute(f"DROP TABLE {name}", database="reenact")


def rows(server: Server, table: str) -> list[int]:
    return [n for (n,) in server.execute(f"SELECT n FROM {table} ORDER BY n", database="reenact")]


def connect(proxy: Proxy) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(proxy.url, autocommit=True)


def test_what_is_asked_is_answered_and_counted(proxy: Proxy) -> None:
    with connect(proxy) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
        assert db.execute("SELECT %s::text", ("x" * 3_000_000,)).fetchone() == ("x" * 3_000_000,)
        with db.pipeline():
            for number in range(10):
                db.execute("SELECT %s::int", (number,))
    assert len(proxy.requests) >= 3
    assert proxy.requests[0].text == "SELECT 1"
    assert 3 <= proxy.turns <= 5


def test_of_a_dropped_reply_the_server_has_done_all(proxy: Proxy, postgres: Server, table: str) -> None:
    with connect(proxy) as db:
        proxy.drop_reply(1)
        db.execute(f"INSERT INTO {table} VALUES (1)")
        with pytest.raises(psycopg.OperationalError):
            db.execute(f"INSERT INTO {table} VALUES (%s)", (2,))
    assert proxy.broke.wait(5)
    with connect(proxy) as db:
        db.execute(f"INSERT INTO {table} VALUES (3)")
    assert rows(postgres, table) == [1, 2, 3]


def test_a_dropped_reply_of_commit_leaves_a_transaction_that_is_there(
    proxy: Proxy, postgres: Server, table: str
) -> None:
    with connect(proxy) as db:
        db.execute("BEGIN")
        db.execute(f"INSERT INTO {table} VALUES (1)")
        proxy.drop_reply()
        with pytest.raises(psycopg.OperationalError):
            db.execute("COMMIT")
    assert rows(postgres, table) == [1]


def test_a_lost_request_never_comes_to_the_server(proxy: Proxy, postgres: Server, table: str) -> None:
    with connect(proxy) as db:
        proxy.lose_request()
        with pytest.raises(psycopg.OperationalError):
            db.execute(f"INSERT INTO {table} VALUES (%s)", (1,))
    assert proxy.broke.is_set()
    assert rows(postgres, table) == []


def test_in_silence_nothing_comes_back_nothing_ends_and_all_is_done_afterwards(
    proxy: Proxy, postgres: Server, table: str
) -> None:
    with connect(proxy) as db:
        db.execute("SELECT 1")
        proxy.silence()
        asking = threading.Thread(target=lambda: db.execute(f"INSERT INTO {table} VALUES (1)"))
        asking.start()
        asking.join(0.2)
        assert asking.is_alive()
        assert rows(postgres, table) == []
        proxy.speak()
        asking.join(5)
        assert rows(postgres, table) == [1]


def test_a_client_that_goes_in_silence_is_not_seen_to_go(proxy: Proxy, postgres: Server) -> None:
    db = connect(proxy)
    pid = db.info.backend_pid
    proxy.silence()
    db.close()
    time.sleep(0.1)
    assert pid in postgres.backends()
    proxy.speak()
    until = time.monotonic() + 5
    while pid in postgres.backends():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_far_server_answers_late_however_much_is_asked_at_once(postgres: Server) -> None:
    with Proxy(postgres.url(), delay_s=0.05) as proxy, connect(proxy) as db:
        started = time.monotonic()
        db.execute("SELECT 1")
        assert time.monotonic() - started >= 0.05
        with db.pipeline():
            started = time.monotonic()
            for _ in range(20):
                db.execute("SELECT 1")
        assert time.monotonic() - started < 20 * 0.05


def test_every_connection_can_be_cut(proxy: Proxy) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        one.execute("SELECT 1")
        proxy.cut_all()
        for db in (one, other):
            with pytest.raises(psycopg.OperationalError):
                db.execute("SELECT 1")
    with connect(proxy) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)
