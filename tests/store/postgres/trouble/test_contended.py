"""What a server undoes because two got in each other's way is done again, and once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from reenact.store.base import Erasing, LateEffect
from reenact.store.open import open_store
from reenact.store.postgres.opened.url import place_of
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import Schemas
from tests.postgres.server import Server
from tests.store.postgres.test_side_by_side import in_processes
from tests.store.units import Run, payload

DAY, TURNS, PROCESSES = "2026-01-01", 15, 4


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        open_store(found).close()
        yield found


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    return store


def spend(url: str, number: int) -> int:
    """At the same place as all the others: numbers of runs that are 16 apart spend in one row."""
    with closing(opened(url)) as store:
        run = Run(f"run-{16 * number}")
        lease = store.acquire(run.run_id, f"elsewhere|{number}|1|x")
        run.bodies += store.bodies(run.run_id)
        for turn in range(TURNS):
            unit, taken = run.unit()
            unit.spent = [(DAY, "a", "m", 1)]
            taken(store.append(unit, lease))
            store.add_late_effect("run-0", LateEffect("t", f"{number} {turn}".encode()))
    return 0


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_serialization_failures_where_that_is_the_servers_default(url: str, postgres: Server, level: str) -> None:
    postgres.execute(f"ALTER ROLE reenact SET default_transaction_isolation TO '{level}'")
    before = postgres.log().count("could not serialize access")
    try:
        with closing(opened(url)) as store:
            for number in range(16 * PROCESSES):
                lease = store.append(Run(f"run-{number}").unit()[0], None, owner="elsewhere|1|1|x").lease
                store.release(lease)
            assert in_processes(PROCESSES, lambda number: spend(url, number)) == [0] * PROCESSES
            assert store.spent(DAY, "a") == {"m": TURNS * PROCESSES}
            assert len(store.late_effects("run-0", "t")) == TURNS * PROCESSES
    finally:
        postgres.execute("ALTER ROLE reenact RESET default_transaction_isolation")
    assert postgres.log().count("could not serialize access") > before


def test_a_deadlock(url: str, postgres: Server) -> None:
    """With somebody who takes the same locks the other way round, as an administrator's script may."""
    before, place, value = postgres.log().count("deadlock detected"), place_of(url), payload(b"secret")
    with closing(opened(url)) as store, psycopg.connect(place.conninfo) as other:
        run = Run("run-1")
        unit, _ = run.unit(payloads=[value])
        store.release(store.append(unit, None, owner="a").lease)
        other.execute(f"SELECT 1 FROM {place.schema}.runs FOR UPDATE".encode())
        erasing = Erasing("run-1", frozenset({value.commitment}), frozenset(), False, "w", "r")
        gone: list[int] = []
        thread = threading.Thread(target=lambda: gone.append(store.erase(erasing)))
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reenact' AND wait_event_type = 'Lock'"
        while postgres.execute(waiting) != [(1,)]:
            assert thread.is_alive()
        other.execute(f"SELECT 1 FROM {place.schema}.counters FOR UPDATE".encode())
        other.commit()
        thread.join()
        assert (gone, len(store.erasures())) == ([1], 1)
    assert postgres.log().count("deadlock detected") == before + 1
