"""Servers and stores for any test: `store_url`, once for each engine.

PostgreSQL is the server that REENACT_TEST_POSTGRES names, with the right to make schemas in its database; else one is
started for this process when the first test asks for it. Each test has a schema of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.engines.places import store_at

if TYPE_CHECKING:  # loaded by the tests that use them
    from tests.postgres.pgbouncer import PgBouncer
    from tests.postgres.pooler import Pooler
    from tests.postgres.server import Server

GIVEN = "REENACT_TEST_POSTGRES"
POOLED = "REENACT_TEST_POOLER"
Schemas = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of this process's own, of the newest version found: to be looked into, and not to be stopped."""
    from tests.postgres.server import Server

    with Server() as server:
        yield server


@pytest.fixture
def pooler(postgres: Server) -> Iterator[PgBouncer | Pooler]:
    """A transaction pooler with two backends: the real one where it is on this machine."""
    from tests.postgres.pgbouncer import pooler_for

    with pooler_for(postgres) as between:
        yield between


@pytest.fixture(scope="session")
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of the server that was named, or else of one of this process; by way of a pooler where that is wanted."""
    if not os.environ.get(POOLED):
        yield os.environ.get(GIVEN) or request.getfixturevalue("postgres").url()
        return
    from tests.postgres.pgbouncer import pooler_for

    server = request.getfixturevalue("postgres")
    with pooler_for(server) as between:
        yield between.url_of(server.url())


@pytest.fixture
def new_schema(server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Schemas:
    """Gives the URL of a store that is not there yet, in a schema of its own. Its keys lie in a folder of the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return lambda: schema_at(server_url)


@pytest.fixture
def store_url(engine: str, tmp_path: Path) -> str:
    """Of a store that is not there yet: once for each engine."""
    return store_at(f"sqlite:///{tmp_path / 'store.db'}")


@contextmanager
def schema_at(url: str) -> Iterator[str]:
    """The URL of a schema that no one else has, taken away in the end, if anybody has made it."""
    import psycopg
    from psycopg import sql

    name = f"test_{uuid4().hex[:12]}"
    try:
        yield f"{url}{'&' if '?' in url else '?'}schema={name}"
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
