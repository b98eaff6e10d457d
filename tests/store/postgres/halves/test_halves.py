"""Whatever reads and then writes is stopped between its halves, in one process while others do the same."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from reenact.store.base import LEASE_MS
from reenact.store.open import open_store
from reenact.store.postgres.opened.url import place_of
from reenact.store.postgres.store import PostgresStore
from tests.postgres.fixtures import schema_at
from tests.postgres.pooler import Pooler
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.store.postgres.halves.crew import Crew
from tests.store.postgres.halves.pairs import PAIRS
from tests.store.postgres.halves.stopping import HALT, NAME, TRIGGER, Stage, wait_until

EVERY = int(os.environ.get("HALVES_EVERY", "2"))
"""Of the requests of a process it is stopped at every so many."""
PROCESSES = int(os.environ.get("HALVES_PROCESSES", "3"))
POOLED = "through a pooler"


@pytest.fixture(scope="module", params=["directly", POOLED])
def stage(
    request: pytest.FixtureRequest, postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Processes at one store, the first by way of a proxy. A pooler has two more backends than are stopped."""
    with ExitStack() as opened:
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("keys")))
        crew = opened.enter_context(Crew(PROCESSES))
        url = opened.enter_context(schema_at(postgres.url()))
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        opened.callback(store.close)
        assert store.signing_key.kid
        store.database.call(HALT)
        for table in sorted({table for pair in PAIRS.values() for table in pair.tables}):
            store.database.call(TRIGGER.format(table))
        if request.param == POOLED:
            url = opened.enter_context(Pooler(postgres, backends=3)).url_of(url)
        proxy = opened.enter_context(Proxy(url))
        crew.open(f"{proxy.url_of(url)}&application_name={NAME}", url)
        control = opened.enter_context(psycopg.connect(place_of(postgres.url()).conninfo, autocommit=True))
        yield Stage(store, crew, proxy, control, is_pooled=request.param == POOLED)


@pytest.mark.parametrize("name", list(PAIRS))
def test_whatever_reads_and_then_writes_is_stopped_between_its_halves(stage: Stage, name: str) -> None:
    played = stopped = 0
    for number, stop in enumerate(stage.stops(PAIRS[name], list(PAIRS).index(name) % EVERY, EVERY)):
        stopped += stage.play(PAIRS[name], stop, cut=number % 2 == 1)
        played += 1
    assert stopped > 0
    print(f"{name}: stopped {stopped} times in {played}, {PROCESSES} processes")


@pytest.mark.parametrize("name", ["runs are sealed", "a key is reserved", "values are erased"])
def test_who_is_stopped_within_a_transaction_holds_up_the_others_for_less_than_a_lease(stage: Stage, name: str) -> None:
    """All that he has locked is free again, what he did there is undone, and he does it once he goes on."""
    pair, (sleeper, *others), about = PAIRS[name], stage.crew.members, f"asleep {name}"
    stage.proxy.hold(lambda request: request.text == "COMMIT" and len(request.within) > 5)
    sleeper.start(pair.act, about)
    wait_until(stage.proxy.held.is_set)
    os.kill(sleeper.pid, signal.SIGSTOP)
    began = time.monotonic()
    for member in others:
        member.start(pair.act, about)
    came = Counter(member.result() for member in others)
    assert time.monotonic() - began < LEASE_MS / 1000 * max(1, PROCESSES / 4)
    stage.proxy.let_go()
    os.kill(sleeper.pid, signal.SIGCONT)
    pair.after(stage.store, about, came + Counter([sleeper.result()]))
