"""What is ready together is written together: few statements, one chain of seals, and nobody waits for anybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reenact.errors import ConcurrentExecution, FundsTaken, KeyTaken, LockAcquireFailed
from reenact.store.base import Appended, Earmark, Lease, Unit
from reenact.store.open import open_store
from reenact.store.postgres.store import PostgresStore
from reenact.values.digest import ZERO_DIGEST
from tests.postgres.fixtures import Schemas
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.store.keys.test_key_files import signer
from tests.store.postgres.test_side_by_side import in_processes
from tests.store.units import Run, payload, reservation

DAY = "2026-01-01"


@pytest.fixture
def far(new_schema: Schemas) -> Iterator[tuple[Proxy, PostgresStore]]:
    with new_schema() as url, Proxy(url) as proxy:
        store = open_store(proxy.url_of(url))
        assert isinstance(store, PostgresStore)
        assert store.signing_key.kid
        yield proxy, store
        store.close()


def begun(store: PostgresStore, *names: str) -> list[tuple[Run, Lease]]:
    runs = [Run(name) for name in names]
    done = store.append_many([(run.unit()[0], None, "a") for run in runs])
    return [(run, result.lease) for run, result in zip(runs, done, strict=True) if isinstance(result, Appended)]


def asked(proxy: Proxy, since: int) -> list[str]:
    """Without what follows the log."""
    texts = [request.text for request in proxy.requests[since:] if "log" not in request.text]
    return [text for text in texts if "seals s" not in text]


def sealing(run: Run, lease: Lease) -> tuple[Unit, Lease, str]:
    return run.unit(n=2, new=False, sealed=True, status="completed")[0], lease, "a"


def test_a_group_is_one_request_however_many_units_it_has(far: tuple[Proxy, PostgresStore]) -> None:
    proxy, store = far
    runs = begun(store, *(f"run-{number}" for number in range(20)))
    before = len(proxy.requests)
    units = [run.unit(n=2, new=False, payloads=[payload(b"%d" % at)])[0] for at, (run, _) in enumerate(runs)]
    done = store.append_many([(unit, lease, "a") for unit, (_, lease) in zip(units, runs, strict=True)])
    assert all(isinstance(result, Appended) for result in done)
    assert len(asked(proxy, before)) == 1
    assert [list(store.bodies(unit.run_id))[1:] for unit in units] == [[unit.body] for unit in units]


def test_seals_that_are_ready_together_are_one_transaction_and_one_chain(far: tuple[Proxy, PostgresStore]) -> None:
    proxy, store = far
    runs = begun(store, *(f"run-{number}" for number in range(12)))
    before = len(proxy.requests)
    done = store.append_many([sealing(*each) for each in runs])
    texts = asked(proxy, before)
    assert sum("begin_seal_1" in text for text in texts) == 1
    assert len(texts) <= 6, texts
    last = ZERO_DIGEST
    for result in done:
        assert isinstance(result, Appended)
        assert result.seal is not None
        assert result.seal.prev_store_seal == last
        last = str(result.seal.seal_digest)
    rows = store.database.ask("SELECT id, seal_digest FROM :schema.seals ORDER BY id")
    assert [row[0] for row in rows] == list(range(1, 13))
    assert rows[-1][1] == last
    assert store.database.ask("SELECT count(*) FROM :schema.notes WHERE schema = 'reenact.seal.v1'") == [(12,)]


def test_a_group_of_all_kinds_keeps_its_order_and_a_refused_unit_drops_out_alone(
    far: tuple[Proxy, PostgresStore],
) -> None:
    proxy, store = far
    names = ("plain", "keyed", "late", "sealed", "fenced", "second seal")
    (plain, keyed, late, sealed, gone, other) = begun(store, *names)
    opening = Run("session").unit()[0]
    assert opening.new_run is not None
    opening.new_run = replace(opening.new_run, session="s")
    doubled = Run("doubled").unit()[0]
    doubled.new_run = opening.new_run
    units = [
        (plain[0].unit(n=2, new=False)[0], plain[1], "a"),
        (keyed[0].unit(n=2, new=False, reservations=[reservation("k", "t1")])[0], keyed[1], "a"),
        (late[0].unit(n=2, new=False, reservations=[reservation("k", "t2")])[0], late[1], "a"),
        sealing(*sealed),
        sealing(gone[0], replace(gone[1], token=7)),
        (opening, None, "a"),
        (doubled, None, "a"),
        sealing(*other),
        (plain[0].unit(n=3, new=False)[0], plain[1], "a"),
    ]
    before = len(proxy.requests)
    done = store.append_many(units)  # type: ignore[arg-type]
    wanted = [Appended, Appended, KeyTaken, Appended, ConcurrentExecution, Appended, LockAcquireFailed, Appended]
    assert [type(result) for result in done] == [*wanted, Appended]
    assert sum("COMMIT" in text for text in asked(proxy, before)) == 1
    seals = [result.seal for result in done if isinstance(result, Appended) and result.seal is not None]
    assert [seal.prev_store_seal for seal in seals] == [ZERO_DIGEST, seals[0].seal_digest]
    assert [len(list(store.bodies(name))) for name in names] == [3, 2, 1, 2, 1, 2]
    record = store.key_record("local", "mail", "k")
    assert record is not None
    assert record.trace_id == "t1"


@pytest.mark.parametrize("how", ["drop_reply", "lose_request"])
def test_a_group_of_seals_whose_reply_is_lost_is_there_once(far: tuple[Proxy, PostgresStore], how: str) -> None:
    proxy, store = far
    store.append_many([sealing(*each) for each in begun(store, "x-1", "x-2")])
    last, fired = store.database.ask("SELECT seal_digest FROM :schema.seals WHERE id = 2")[0][0], 0
    for place in range(7):
        runs = begun(store, *(f"run-{place}-{number}" for number in range(3)))
        store._follower.close()  # it asks in between
        getattr(proxy, how)(place)
        done = store.append_many([sealing(*each) for each in runs])
        fired += proxy.broke.is_set()
        for (run, _), result in zip(runs, done, strict=True):
            assert isinstance(result, Appended), result
            assert result.seal is not None
            assert result.seal.prev_store_seal == last
            last = str(result.seal.seal_digest)
            assert len(list(store.bodies(run.run_id))) == 2
        ((seals, highest),) = store.database.ask("SELECT count(*), max(id) FROM :schema.seals")
        assert seals == highest == 2 + 3 * (place + 1)
    assert fired >= 5


def test_a_large_value_that_was_refused_is_written_whole_the_next_time(far: tuple[Proxy, PostgresStore]) -> None:
    """It was stored as built on itself, since it had been packed once."""
    _, store = far
    ((run, lease),) = begun(store, "run-1")
    value, other = payload(b"a value " * 1000), payload(b"a value " * 1001)
    unit, _ = run.unit(n=2, new=False, payloads=[value])
    unit.earmarks = [Earmark("t", DAY, "a", "m", 5, 1, None)]
    with pytest.raises(FundsTaken):
        store.append(unit, lease)
    unit.earmarks = []
    store.append(unit, lease)
    store.append(run.unit(n=3, new=False, payloads=[other])[0], lease)
    for each in (value, other):
        assert store.payload("run-1", each.commitment) == each.envelope


def test_groups_of_several_processes_that_spend_from_the_same_rows_do_not_wait_for_each_other(
    new_schema: Schemas, postgres: Server
) -> None:
    """Each in another order: one of two was undone by the server, after a second."""

    def deadlocks() -> int:
        return int(postgres.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'reenact'")[0][0])

    with new_schema() as url:
        open_store(url).close()
        before = deadlocks()

        def spend(number: int) -> int:
            store = open_store(url)
            assert isinstance(store, PostgresStore)
            runs = begun(store, *(f"{number}-{at}" for at in range(12)))
            for n in range(2, 22):
                units = []
                for run, lease in runs if number % 2 else reversed(runs):
                    unit, _ = run.unit(n=n, new=False)
                    unit.spent = [(DAY, "a", "m", 1)]
                    units.append((unit, lease, "a"))
                assert all(isinstance(result, Appended) for result in store.append_many(units))  # type: ignore[arg-type]
            return 0

        assert in_processes(4, spend) == [0] * 4
        store = open_store(url)
        assert store.spent(DAY, "a") == {"m": 4 * 12 * 20}
        store.close()
        assert deadlocks() == before


def test_seals_of_a_group_under_a_command_that_signs_are_a_chain_too(
    new_schema: Schemas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_SIGNING_KEY", signer(tmp_path))
    with new_schema() as url:
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        done = store.append_many([sealing(*each) for each in begun(store, "run-1", "run-2")])
        first, second = (result.seal for result in done if isinstance(result, Appended) and result.seal is not None)
        assert (first.prev_store_seal, second.prev_store_seal) == (ZERO_DIGEST, first.seal_digest)
        store.close()
