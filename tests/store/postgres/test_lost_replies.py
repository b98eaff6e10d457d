"""A reply that is lost after the server committed, and a request that never came to it: each commit is there once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reenact.store.open import open_store
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import Schemas
from tests.postgres.proxy import Proxy
from tests.store.postgres.work import Work

STEP = int(os.environ.get("LOST_STEP", "10"))
"""1 for every request there is, which takes three minutes."""


@pytest.fixture
def far(new_schema: Schemas) -> Iterator[tuple[Proxy, PostgresStore]]:
    """A store behind a proxy, opened, and with a run in it: what is made once is there."""
    with new_schema() as url, Proxy(url) as proxy:
        store = open_store(proxy.url_of(url))
        assert isinstance(store, PostgresStore)
        Work(store, "first").all()
        yield proxy, store
        store.close()


def requests_of(proxy: Proxy, store: PostgresStore) -> int:
    before = len(proxy.requests)
    Work(store, "counted").all()
    return len(proxy.requests) - before


@pytest.mark.parametrize("how", ["drop_reply", "lose_request"])
def test_whatever_is_lost_is_done_once(far: tuple[Proxy, PostgresStore], how: str) -> None:
    proxy, store = far
    count = requests_of(proxy, store)
    assert count > 100
    fired = tried = 0
    for place in range(0 if how == "drop_reply" else STEP // 2, count, STEP):
        getattr(proxy, how)(place)
        Work(store, f"{how}-{place}").all()
        fired += proxy.broke.is_set()
        tried += 1
    assert fired >= 0.9 * tried, "the log is followed beside it, so the last few may not come"
    print(f"{fired} of {count} requests lost, each {STEP}th in turn")
