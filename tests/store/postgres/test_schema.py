"""The schema of a PostgreSQL store: made once, refused where it is another, and told apart from what it should be."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from reenact.errors import StoreUnavailable, StoreVersionError, UsageError
from reenact.store.open import missing, open_evidence, open_store
from reenact.store.postgres.opened.url import place_of
from tests.postgres.fixtures import Schemas, schema_at
from tests.postgres.server import Server
from tests.store.postgres.made import PLACE, made_at
from tests.store.units import Run


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        yield found


def execute(url: str, *statements: str) -> None:
    place = place_of(url)
    with psycopg.connect(place.conninfo, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.replace(":schema", place.schema))


def test_what_the_scripts_make_is_what_a_store_is_held_against(url: str) -> None:
    """`python -m tests.store.postgres.made` writes it."""
    assert made_at(url) == PLACE.read_text(encoding="utf-8")


def test_every_version_of_the_server_makes_the_same(any_server: Server) -> None:
    with schema_at(any_server.url()) as url:
        assert made_at(url) == PLACE.read_text(encoding="utf-8")


def test_many_that_open_a_store_first_make_one(url: str) -> None:
    found: list[str] = []

    def open_it() -> None:
        store = open_store(url)
        found.append(store.store_id)
        store.close()

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_nothing_is_made_by_who_only_reads(url: str) -> None:
    assert missing(url) == place_of(url).shown
    with pytest.raises(StoreUnavailable, match="there is no store"):
        open_store(url, to_read=True)
    with pytest.raises(StoreUnavailable, match="there is no store"):
        open_evidence(url)
    assert missing(url) is not None


def test_a_schema_that_holds_something_else_is_left_alone(url: str) -> None:
    execute(url, "CREATE SCHEMA :schema", "CREATE TABLE :schema.runs (a integer)")
    with pytest.raises(StoreUnavailable, match="other tables"):
        open_store(url)


@pytest.mark.parametrize(
    ("number", "says"), [("2", "`reenact db upgrade` brings it up to date"), ("9", "upgrade reenact")]
)
def test_another_version_is_refused_in_one_line(url: str, number: str, says: str) -> None:
    open_store(url).close()
    execute(url, f"UPDATE :schema.store SET value = '{number}' WHERE key IN ('schema', 'oldest_client')")
    with pytest.raises(StoreVersionError, match=says) as refused:
        open_store(url)
    assert "\n" not in str(refused.value)


def test_a_client_that_is_too_old_begins_nothing_and_claims_nothing(url: str) -> None:
    store = open_store(url)
    unit, _ = Run("run-1").unit()
    store.release(store.append(unit, None, owner="a").lease)
    execute(url, "UPDATE :schema.store SET value = '2' WHERE key = 'oldest_client'")
    with pytest.raises(StoreVersionError, match="upgrade reenact"):
        store.acquire("run-1", "a")
    unit, _ = Run("run-2").unit()
    with pytest.raises(StoreVersionError, match="upgrade reenact"):
        store.append(unit, None, owner="a")
    store.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP TRIGGER keys_are_not_changed ON :schema.keys", "the trigger keys_are_not_changed is not there"),
        ("ALTER TABLE :schema.commits_0 DISABLE TRIGGER USER", "commits_are_not_changed of commits_0"),
        ("CREATE TABLE :schema.other (a integer)", "the table other is none of reenact's"),
        ("CREATE RULE r AS ON INSERT TO :schema.notes DO INSTEAD NOTHING", "the rule r of notes is none of reenact's"),
        (
            "CREATE OR REPLACE FUNCTION :schema.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
            "the function now_ms() is another than reenact made",
        ),
    ],
)
def test_what_was_changed_is_told(url: str, change: str, says: str) -> None:
    open_store(url).close()
    execute(url, change)
    with open_evidence(url) as evidence:
        assert any(says in told for told in evidence.altered_guards())
        assert evidence.altered_tables() == []


def test_a_table_that_is_another_is_not_read(url: str) -> None:
    open_store(url).close()
    execute(url, "ALTER TABLE :schema.runs ALTER COLUMN status DROP NOT NULL")
    with open_evidence(url) as evidence:
        assert [name for name, _ in evidence.altered_tables()] == ["runs"]


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://h/d?options=-csearch_path%3Dx",
        "postgresql://h/d?schema=pg_x",
        'postgresql://h/d?schema=a"b',
        "postgresql://h/d?schema=",
        "postgresql://[h/d",
    ],
)
def test_a_url_that_cannot_be_is_refused_without_a_connection(given: str) -> None:
    with pytest.raises(UsageError):
        place_of(given)


def test_no_password_is_shown() -> None:
    place = place_of("postgres://ann:s3cret@h:5/d?schema=x&password=s4cret&sslmode=require")
    assert place.shown == "postgresql://ann@h:5/d?schema=x&sslmode=require"
    assert "s3cret" in place.conninfo
    assert "schema" not in place.conninfo
