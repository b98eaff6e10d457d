"""What is done once in the life of a store is there once, whichever of its requests the connection breaks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.store.checks.verification import verify_run
from reenact.store.copying.moving import move
from reenact.store.open import open_evidence, open_source, open_store, open_target, upgrade
from reenact.store.postgres.opened import database, schema, upgrading
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import Schemas
from tests.postgres.proxy import Proxy, Request
from tests.store.checks.store_file import PLAN, REGISTRY
from tests.store.copying.test_moving import bundles
from tests.store.postgres.test_lost_replies import STEP

WAYS = pytest.mark.parametrize("how", ["drop_replies", *(["lose_requests"] if STEP == 1 else [])])


class Once:
    """Chooses each statement once, by itself and what came before it in its transaction."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, ...]] = set()

    def __call__(self, request: Request) -> bool:
        kind = (*request.within, request.text)
        if kind in self.seen or kind[0].startswith("BEGIN ISOLATION LEVEL REPEATABLE READ"):
            return False  # a snapshot goes with its connection: whoever looks does so again
        self.seen.add(kind)
        return True


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in which everything is lost once is tried again more often than usual."""
    monkeypatch.setattr(database, "PAUSE_S", 0.0001)
    monkeypatch.setattr(database, "TRYING_S", 60.0)


@pytest.fixture
def broken(new_schema: Schemas) -> Iterator[tuple[Proxy, str]]:
    with new_schema() as url, Proxy(url) as proxy:
        yield proxy, url


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    return store


@WAYS
def test_a_store_is_made_once_with_one_id_and_one_key(broken: tuple[Proxy, str], how: str) -> None:
    proxy, url = broken
    getattr(proxy, how)(once := Once())
    with closing(opened(proxy.url_of(url))) as store:
        assert store.signing_key.kid
        store_id = store.store_id
    assert len(once.seen) > 20
    with closing(opened(url)) as store:
        assert store.store_id == store_id
        for table, count in (("key_secret", 1), ("keys", 1), ("notes", 2), ("counters", 5)):
            assert store.database.ask(f"SELECT count(*) FROM :schema.{table}") == [(count,)], table


@WAYS
def test_keys_are_rotated_and_replaced_once(broken: tuple[Proxy, str], how: str, tmp_path: Path) -> None:
    proxy, url = broken
    with closing(Runtime(url, skills=REGISTRY)) as runtime:
        run_id = runtime.run(PLAN).run_id
    with closing(opened(proxy.url_of(url))) as store:
        getattr(proxy, how)(Once())
        rotated = store.key_table.rotate("w")
        assert (store.key_table.history().current, len(store.public_keys())) == (rotated.new_kid, 2)
        for key in (tmp_path / "data").rglob("*.key*"):
            key.unlink()
    with closing(opened(proxy.url_of(url))) as store:
        getattr(proxy, how)(Once())
        replaced = store.key_table.replace("w", "it burnt", lambda _: True)
        assert [record.old_kid for record in replaced] == [rotated.new_kid]
        assert store.key_table.history().current == replaced[0].new_kid
        store.vouch()
    with closing(opened(url)) as store:
        notes = store.database.ask("SELECT schema, count(*) FROM :schema.notes WHERE record IS NOT NULL GROUP BY 1")
        assert {schema: count for schema, count in notes if "key" in schema} == {
            "reenact.key_rotation.v1": 1, "reenact.key_replacement.v1": 1,
        }  # fmt: skip
    with closing(Runtime(url, skills=REGISTRY)) as runtime:
        assert verify_run(url, runtime.run(PLAN).run_id).exit_code == 0
    assert verify_run(url, run_id).exit_code == 0


@WAYS
def test_a_schema_is_upgraded_once(broken: tuple[Proxy, str], how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, url = broken
    before = upgrade(url)[1]
    later = [
        (before + 1, "-- additive\nCREATE TABLE :schema.more (a integer); INSERT INTO :schema.more VALUES (1)"),
        (before + 2, "-- exclusive\nUPDATE :schema.more SET a = a + 1"),
    ]
    known = [*schema.scripts(), *later]
    monkeypatch.setattr(schema, "scripts", lambda: known)
    monkeypatch.setattr(upgrading, "scripts", lambda: known)
    getattr(proxy, how)(Once())
    assert upgrade(proxy.url_of(url)) == (before, before + 2)
    proxy.drop_replies(lambda _: False)
    proxy.lose_requests(lambda _: False)
    with closing(opened(url)) as store:
        assert store.database.ask("SELECT a FROM :schema.more") == [(2,)]


@WAYS
def test_a_store_is_copied_once_there_and_back(broken: tuple[Proxy, str], how: str, tmp_path: Path) -> None:
    proxy, url = broken
    first, last = (f"sqlite:///{tmp_path / name}" for name in ("first.db", "last.db"))
    with closing(Runtime(first, skills=REGISTRY)) as runtime:
        run_id = runtime.run(PLAN).run_id
    before = bundles(first, tmp_path / "before")
    getattr(proxy, how)(once := Once())
    with open_source(first) as source, open_target(proxy.url_of(url)) as target:
        move(source, target, lambda *_: None)
    assert len(once.seen) > 60
    with open_source(proxy.url_of(url)) as source, open_target(last) as target:
        move(source, target, lambda *_: None)
    assert bundles(last, tmp_path / "after") == before
    with open_evidence(last) as evidence:
        assert evidence.named_runs(run_id) == [(1, run_id)]
