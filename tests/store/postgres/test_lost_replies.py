"""A reply that is lost after the server committed, and a request that never came to it: each commit is there once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from reenact.store.open import open_store
from reenact.store.postgres.opened import database
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import Schemas
from tests.postgres.pooler import Pooler
from tests.postgres.proxy import Proxy, Request
from tests.store.postgres.work import Work

STEP = int(os.environ.get("LOST_STEP", "50"))
"""1 for every request there is, on its own."""
LOG = re.compile(r"\blog_|'log'|seals WHERE id >")
TURNS, MOST_TURNS = 4, 16
POOLED = "through a pooler"


class Kinds:
    """Chooses the first request of each kind that was not chosen before. A kind is a statement, what came before it in
    its transaction, and the part of the work that it belongs to: but for those of the log, which is followed beside it.

    In each turn of the work some of them, and in the last ones of each part only one: what is tried again asks first
    what became of it, and so is of other kinds from there on.
    """

    def __init__(self) -> None:
        self.turn = -1
        """Nothing is chosen in the first one."""
        self.usual: dict[tuple[str, ...], int] = {}
        self.chosen: set[tuple[str, ...]] = set()
        self._work: Work | None = None
        self._hit: set[str] = set()

    def next_turn(self, work: Work) -> None:
        self.turn, self._work, self._hit = self.turn + 1, work, set()

    @property
    def missing(self) -> set[tuple[str, ...]]:
        return set(self.usual) - self.chosen

    def __call__(self, request: Request) -> bool:
        said = (*request.within, request.text)
        beside = request.text.startswith("BEGIN") or any(LOG.search(text) for text in said)
        part = "" if beside or self._work is None else self._work.part
        kind = (part, *said)
        if self.turn == 0:
            self.usual.setdefault(kind, len(self.usual))
        if self.turn <= 0 or kind in self.chosen or not self._is_due(part, kind):
            return False
        self.chosen.add(kind)
        self._hit.add(part)
        return True

    def _is_due(self, part: str, kind: tuple[str, ...]) -> bool:
        if self.turn <= TURNS:
            return self.usual.get(kind, 0) % TURNS == self.turn - 1
        return kind in self.usual and part not in self._hit


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in which everything is lost once is tried again more often than usual."""
    monkeypatch.setattr(database, "PAUSE_S", 0.0001)
    monkeypatch.setattr(database, "TRYING_S", 60.0)


@pytest.fixture
def far(request: pytest.FixtureRequest, new_schema: Schemas) -> Iterator[tuple[Proxy, PostgresStore]]:
    """A store behind a proxy, opened, and with a run in it: what is made once is there."""
    with ExitStack() as opened:
        url = opened.enter_context(new_schema())
        if getattr(request, "param", "") == POOLED:
            between: Pooler = request.getfixturevalue("pooler")
            url = between.url_of(url)
        proxy = opened.enter_context(Proxy(url))
        store = open_store(proxy.url_of(url))
        assert isinstance(store, PostgresStore)
        Work(store, "first").all()
        yield proxy, store
        store.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("far", "how"), [("", "drop_reply"), ("", "lose_request"), (POOLED, "drop_reply")], indirect=["far"]
)
def test_whatever_is_lost_of_each_kind_of_request_is_done_once(far: tuple[Proxy, PostgresStore], how: str) -> None:
    proxy, store = far
    kinds = Kinds()
    getattr(proxy, {"drop_reply": "drop_replies", "lose_request": "lose_requests"}[how])(kinds)
    while kinds.turn < TURNS or (kinds.missing and kinds.turn < MOST_TURNS):
        kinds.next_turn(work := Work(store, f"{how}-{kinds.turn}"))
        work.all()
    assert {kind[-1].split()[0] for kind in kinds.usual} >= {"BEGIN", "COMMIT", "SELECT", "INSERT", "UPDATE", "DELETE"}
    assert len(kinds.usual) > 100
    assert kinds.missing == set()
    print(f"{len(kinds.chosen)} kinds of requests lost, {len(kinds.usual)} of them where nothing else is")


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
