"""What is wrong with a store in a database is said in one line, with what to do, and without a password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.store.open import open_store
from reenact.store.postgres.opened.schema import latest
from tests.cli.harness import Command, error_line
from tests.postgres.fixtures import Schemas
from tests.postgres.server import Server

STEP = {"skill_id": "json_transform", "parameters": {"data": [2, 1], "operation": "sort"}}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        open_store(found).close()
        yield found


def told(command: Command, url: str, *words: str | Path) -> str:
    """The one line, of a command that does nothing else."""
    done = command(*words, REENACT_STORE=url)
    password = url.partition("@")[0].rpartition(":")[2]
    assert (done.code, done.out) == (3, ""), (words, done)
    assert password not in done.err
    assert "Traceback" not in done.err
    return error_line(done)


def said(command: Command, url: str) -> set[str]:
    """What reading, writing and going on say."""
    plan = command.plan(STEP)
    return {told(command, url, *words) for words in (("ls",), ("verify", "last"), ("run", plan), ("recover",))}


def all_say(command: Command, url: str, what: str) -> None:
    for line in said(command, url):
        assert what in line


def test_a_wrong_password(command: Command, url: str, postgres: Server) -> None:
    all_say(command, url.replace(postgres.password, "wr0ng"), "the password is wrong: put the right one into the URL")


def test_a_database_that_is_not_there(command: Command, postgres: Server) -> None:
    all_say(command, postgres.url(database="nothing"), "there is no such database: `createdb` makes one")


def test_a_user_that_is_not_there(command: Command, url: str) -> None:
    line = told(command, url.replace("//reenact:", "//nobody:"), "ls")
    assert "the password is wrong" in line, "who is not there is not told from who has another password"


def test_a_host_that_cannot_be_reached(command: Command, url: str, postgres: Server) -> None:
    assert "cannot be reached" in told(command, url.replace(f":{postgres.port}/", ":1/"), "ls")
    assert "cannot be reached" in told(command, url.replace("127.0.0.1", "nowhere.invalid"), "ls")


def test_a_schema_that_is_not_there(command: Command, postgres: Server) -> None:
    """It is made by whoever runs something, and by nobody else."""
    url = postgres.url(schema="nobody_made_it")
    for words in (("ls",), ("verify", "last")):
        done = command(*words, REENACT_STORE=url)
        (line,) = done.err.splitlines()
        assert "no store at postgresql://reenact@127.0.0.1" in line
        assert postgres.password not in done.out + done.err
    assert postgres.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'nobody_made_it'", database="reenact") == []


def set_schema(url: str, server: Server, number: int, oldest: int = 1) -> None:
    schema = url.rpartition("=")[2]
    for key, value in (("schema", number), ("oldest_client", oldest)):
        text = f"UPDATE {schema}.store SET value = '{value}' WHERE key = '{key}'"
        server.execute(text, database="reenact")


def test_an_older_schema(command: Command, url: str, postgres: Server) -> None:
    set_schema(url, postgres, latest() - 1)
    all_say(command, url, "`reenact db upgrade` brings it up to date")


def test_a_newer_schema(command: Command, url: str, postgres: Server) -> None:
    set_schema(url, postgres, latest() + 1, oldest=99)
    all_say(command, url, "upgrade reenact to use it")


def test_a_schema_of_something_else(command: Command, url: str, postgres: Server) -> None:
    schema = url.rpartition("=")[2]
    postgres.execute(f"DROP TABLE {schema}.store", database="reenact")
    all_say(command, url, "holds other tables and no store of reenact; name another one: ?schema=NAME")


def test_missing_rights(command: Command, url: str, postgres: Server) -> None:
    """At the schema, and at the database."""
    postgres.add_role("stranger")
    try:
        stranger = url.replace("//reenact:", "//stranger:")
        all_say(command, stranger, "permission denied for ")
        all_say(command, stranger, "`reenact db grants` prints which rights a role needs")
        postgres.execute("REVOKE CONNECT ON DATABASE reenact FROM PUBLIC")
        all_say(
            command, stranger, "`reenact db grants` prints which rights a role needs (permission denied for database"
        )
    finally:
        postgres.execute("GRANT CONNECT ON DATABASE reenact TO PUBLIC")
        postgres.execute("DROP ROLE stranger")


def test_a_doctor_says_it_too_and_no_password(command: Command, url: str, postgres: Server) -> None:
    for wrong, says in (
        (url.replace(postgres.password, "wr0ng"), "the password is wrong"),
        (url.replace("/reenact?", "/nothing?"), "createdb"),
    ):
        done = command("doctor", "--json", REENACT_STORE=wrong)
        assert done.code == 3
        assert any(says in finding["says"] for finding in json.loads(done.out))
        assert "wr0ng" not in done.out + done.err
        assert postgres.password not in done.out + done.err
