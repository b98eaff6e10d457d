"""What is durable when it is said to be, whatever the server's own setting; and what need not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from reenact.store.base import Appended, LateEffect, Lease
from reenact.store.open import open_store
from reenact.store.postgres.store import PostgresStore
from tests.postgres.server import OWNER, Server
from tests.store.units import Run, reservation

SEEN = """
CREATE TABLE reenact.seen (setting text);
CREATE FUNCTION reenact.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reenact.seen VALUES (current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT ON reenact.commits FOR EACH STATEMENT EXECUTE FUNCTION reenact.see();
CREATE TRIGGER see AFTER INSERT ON reenact.late_effects FOR EACH STATEMENT EXECUTE FUNCTION reenact.see();
CREATE TRIGGER see AFTER UPDATE ON reenact.runs FOR EACH STATEMENT EXECUTE FUNCTION reenact.see();
"""
"""`synchronous_commit` of each transaction, as the server has it when a row is written."""
DATABASE = "durable"


@pytest.fixture
def url(postgres: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[str]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    postgres.add_database(DATABASE)
    yield postgres.url(database=DATABASE)
    postgres.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def work(store: PostgresStore, name: str) -> Lease:
    """A run that begins, goes on, uses a key, leaves something, ends; and one that is given back and taken again."""
    runs = [Run(f"{name}-1"), Run(f"{name}-2")]
    done = store.append_many([(run.unit()[0], None, "a") for run in runs])
    leases = [each.lease for each in done if isinstance(each, Appended)]
    store.append(runs[0].unit(n=2, new=False)[0], leases[0])
    store.append(runs[0].unit(n=3, new=False, reservations=[reservation(name)])[0], leases[0])
    store.add_late_effect(runs[0].run_id, LateEffect("t", b"{}"))
    store.append(runs[0].unit(n=4, new=False, sealed=True, status="completed")[0], leases[0])
    store.release(leases[1])
    return store.acquire(runs[1].run_id, "b")


def test_every_commit_is_durable_or_more_and_a_heartbeat_need_not_be(postgres: Server, url: str) -> None:
    open_store(url).close()
    postgres.execute(SEEN, database=DATABASE, role=OWNER)

    def seen() -> set[str]:
        rows = postgres.execute("DELETE FROM reenact.seen RETURNING setting", database=DATABASE)
        assert rows
        return {setting for (setting,) in rows}

    for setting in ("off", "local", "remote_write", "on", "remote_apply"):
        postgres.execute(f"ALTER DATABASE {DATABASE} SET synchronous_commit = {setting}")
        with closing(open_store(url)) as store:
            assert isinstance(store, PostgresStore)
            lease = work(store, setting)
            assert seen() == {"remote_apply" if setting == "remote_apply" else "on"}, setting
            assert len(store.renew([lease])) == 1
            assert seen() == {"off"}, setting
