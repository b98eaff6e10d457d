"""What pytest is told of engines: which tests run on which, and that what runs on PostgreSQL has its store there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from reenact.store.location import without_password
from tests.engines import following, places
from tests.engines.once import reason_for
from tests.engines.suites import ENGINES, LONG, engines, is_in_a_suite
from tests.postgres.fixtures import GIVEN

if TYPE_CHECKING:
    from tests.engines.places import Database

NAMES_AN_ENGINE = ("engine", "backend", "durable")
"""Fixtures whose parameter is an engine."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    node_id = metafunc.definition.nodeid
    if "engine" not in metafunc.fixturenames:
        return
    if "store_url" in metafunc.fixturenames:
        on: tuple[str, ...] = engines() or ENGINES
    elif is_in_a_suite(node_id):
        on = tuple(each for each in engines() or ENGINES if each == "sqlite" or reason_for(node_id) is None)
    else:
        return
    if not on:
        return
    ids = [pytest.HIDDEN_PARAM if each == "sqlite" else each for each in on]
    metafunc.parametrize("engine", on, indirect=True, ids=ids, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = engines()
    left_out = [item for item in items if is_left_out(item, wanted)] if wanted else beyond_the_first(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def engine_of(item: pytest.Item) -> str | None:
    """Whose test it is, where it is one of an engine."""
    found = getattr(item, "callspec", None)
    for name in NAMES_AN_ENGINE if found else ():
        if name in found.params:
            return str(found.params[name]).partition(" ")[0]
    return None


def is_left_out(item: pytest.Item, wanted: tuple[str, ...]) -> bool:
    on = engine_of(item)
    return on not in wanted if on is not None else is_in_a_suite(item.nodeid)


def beyond_the_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """On PostgreSQL, of the tests of a suite: all but the first of each file, and all of a file that takes long."""
    seen: set[object] = set()
    found = []
    for item in items:
        if is_in_a_suite(item.nodeid) and engine_of(item) == "postgres" and "store_url" not in item.fixturenames:  # type: ignore[attr-defined]
            if item.path in seen or item.nodeid.startswith(LONG):
                found.append(item)
            seen.add(item.path)
    return found


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The server of this process, or the one that was named, perhaps behind a pooler."""
    url = request.getfixturevalue("server_url")
    with pytest.MonkeyPatch.context() as patch:
        if password := places.password_of(url):
            patch.setenv("PGPASSWORD", password)
        server = None if os.environ.get(GIVEN) else request.getfixturevalue("postgres")
        yield places.Database(without_password(url), server)


@pytest.fixture(scope="module", autouse=True)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the stores of a module's tests lie, wherever these take a place from `store_at`."""
    named = getattr(request, "param", "sqlite")
    if named == "sqlite":
        yield named
        return
    database: Database = request.getfixturevalue("database")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setattr(places, "database", database)
        following.begin(patch)
        yield named
    database.clear()


@pytest.fixture(autouse=True)
def _has_its_store_there(engine: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """No test says that it runs on PostgreSQL, and has no store there."""
    if engine == "sqlite" or not is_in_a_suite(request.node.nodeid):
        yield
        return
    assert places.database is not None
    with places.database.heeded() as asked:
        yield
    places.database.hang_up()
    assert asked or places.database.made_by_children(), (
        "this test asks for no store of its engine: it is to be listed in tests/engines/once.py"
    )
