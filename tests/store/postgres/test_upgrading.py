"""A store in a database is brought up to date by `reenact db upgrade`, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from reenact.errors import LockAcquireFailed, StoreVersionError
from reenact.store.open import missing, open_store, upgrade
from reenact.store.postgres.opened import schema, upgrading
from reenact.store.postgres.opened.url import place_of
from tests.postgres.fixtures import Schemas
from tests.store.units import Run

ADDITIVE = "-- additive\nCREATE TABLE :schema.more (a integer);"
EXCLUSIVE = (
    "-- exclusive\nCREATE TABLE :schema.less (a integer);\n"
    "UPDATE :schema.store SET value = '2' WHERE key = 'oldest_client';"
)
BROKEN = "-- additive\nCREATE TABLE :schema.broken (a integer);\nSELECT 1 / 0;"


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        yield found


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str]]]:
    """Scripts of versions to come: what is put in here is known from then on."""
    known = list(schema.scripts())
    monkeypatch.setattr(schema, "scripts", lambda: known)
    monkeypatch.setattr(upgrading, "scripts", lambda: known)
    return known


def test_a_store_is_made_where_there_is_none_and_left_alone_where_it_is_up_to_date(url: str) -> None:
    assert upgrade(url) == (0, schema.latest())
    assert missing(url) is None
    assert upgrade(url) == (schema.latest(), schema.latest())


def test_opening_a_store_changes_no_schema(url: str, later: list[tuple[int, str]]) -> None:
    now = schema.latest()
    open_store(url).close()
    later.append((now + 1, ADDITIVE))
    for to_read in (True, False):
        with pytest.raises(StoreVersionError, match="`reenact db upgrade` brings it up to date"):
            open_store(url, to_read=to_read)
    assert upgrade(url) == (now, now + 1)
    open_store(url).close()


def test_beside_an_additive_change_older_clients_go_on(url: str, later: list[tuple[int, str]]) -> None:
    with closing(open_store(url)) as store:
        run = Run("run-1")
        unit, taken = run.unit()
        done = store.append(unit, None, owner="a")
        taken(done)
        later.append((schema.latest() + 1, ADDITIVE))
        upgrade(url)
        later.pop()
        unit, _ = run.unit()
        store.append(unit, done.lease)
        open_store(url).close()


def test_before_an_exclusive_change_every_run_is_at_rest_and_after_it_older_clients_do_nothing(
    url: str, later: list[tuple[int, str]]
) -> None:
    before = schema.latest()
    with closing(open_store(url)) as store:
        unit, _ = Run("run-1").unit()
        done = store.append(unit, None, owner="a")
        later.append((before + 1, EXCLUSIVE))
        with pytest.raises(LockAcquireFailed, match="needs every run at rest"):
            upgrade(url)
        store.release(done.lease)
        assert upgrade(url) == (before, before + 1)
        with pytest.raises(StoreVersionError, match="upgrade reenact"):
            store.acquire("run-1", "a")
        unit, _ = Run("run-2").unit()
        with pytest.raises(StoreVersionError, match="upgrade reenact"):
            store.append(unit, None, owner="a")
    later.pop()
    with pytest.raises(StoreVersionError, match="upgrade reenact"):
        open_store(url)


def test_a_script_that_fails_leaves_the_schema_before_it(url: str, later: list[tuple[int, str]]) -> None:
    before = schema.latest()
    open_store(url).close()
    later += [(before + 1, ADDITIVE), (before + 2, BROKEN)]
    with pytest.raises(Exception, match="division by zero"):
        upgrade(url)
    place = place_of(url)
    with psycopg.connect(place.conninfo) as db:
        found = db.execute("SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relname = ANY(%s)",
                           (place.schema, ["more", "broken"])).fetchall()  # fmt: skip
    assert found == [("more",)]
    later.pop()
    assert upgrade(url) == (before + 1, before + 1)


def test_a_store_of_a_later_version_is_not_upgraded(url: str, later: list[tuple[int, str]]) -> None:
    later.append((schema.latest() + 1, ADDITIVE))
    upgrade(url)
    later.pop()
    with pytest.raises(StoreVersionError, match="upgrade reenact"):
        upgrade(url)
