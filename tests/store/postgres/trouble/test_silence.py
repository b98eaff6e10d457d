"""A server that stops while a skill runs: noticed within the lease, nothing is sent or written after it, and the run
ends once, elsewhere. What the skill gave is kept, or told as not kept."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from threading import Timer

import pytest

from reenact import Runtime, skill
from reenact.errors import ConcurrentExecution, StoreError
from reenact.runtime.conduct import conduct
from reenact.runtime.opening import reopen
from reenact.skills.skill import Skill
from reenact.store.base import LEASE_MS
from reenact.store.checks.verification import verify_run
from reenact.store.open import open_store
from reenact.store.postgres.opened import database
from tests.postgres.fixtures import Schemas
from tests.postgres.pooler import Pooler
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server

POOLED = "through a pooler"
ELSEWHERE = "elsewhere|1|1|x"
REAL = bool(os.environ.get("SILENCE_REAL"))
"""With the deadlines that there are, and not with a quarter of them."""
PATIENCE_S = LEASE_MS / 1000 * (2 if REAL else 1)
"""The append is given up within a lease, and then what it should have kept is tried to be left for as long."""


@dataclass
class World:
    """A store, as one executor reaches it and as another does."""

    here: str
    there: str
    proxy: Proxy
    done: list[int]
    is_pooled: bool
    patch: pytest.MonkeyPatch

    def acts(self, on: int, then: Callable[[], object]) -> Skill:
        """A skill; while it works on a number for the first time, something happens."""

        @skill("work", version="1.0.0", tool_class="write", honours_key=True)
        def work(number: int) -> str:
            self.done.append(number)
            if number == on and self.done.count(on) == 1:
                self.hurry()
                then()
            return f"done {number}"

        return work

    def hurry(self) -> None:
        """From here on the deadlines are a quarter of what they are."""
        if not REAL:
            self.patch.setattr(database, "TRIP_S", 1.0)
            self.patch.setattr(database, "TRYING_S", 2.0)

    def give_free(self) -> None:
        """Instead of waiting for the lease to end."""
        with closing(open_store(self.there)) as store:
            store.database.call("UPDATE :schema.runs SET expires_ms = 1, owner = %s", (ELSEWHERE,))  # type: ignore[attr-defined]

    def commits(self) -> list[bytes]:
        with closing(open_store(self.there)) as store:
            (row,) = store.runs()
            return list(store.bodies(row.run_id))

    def check(self, answers: list[int]) -> None:
        """It ended once, with one seal, and was done as often as that."""
        with closing(open_store(self.there)) as store:
            (row,) = store.runs()
            assert (row.status, self.done) == ("completed", answers)
            assert store.log.rows.seal_count() == 1  # type: ignore[attr-defined]
            assert verify_run(self.there, row.run_id).exit_code == 0


def plan(*numbers: int) -> dict[str, object]:
    steps = [{"step_id": f"s{number}", "skill_id": "work", "parameters": {"number": number}} for number in numbers]
    return {"plan_id": "p", "agent_id": "a", "steps": steps}


@pytest.fixture(params=["directly", POOLED])
def world(
    request: pytest.FixtureRequest, new_schema: Schemas, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A pooler has two more backends than are stopped."""
    with ExitStack() as opened:
        url = opened.enter_context(new_schema())
        open_store(url).close()
        through = url
        if request.param == POOLED:
            through = opened.enter_context(Pooler(postgres, backends=3)).url_of(url)
        proxy = opened.enter_context(Proxy(through))
        yield World(proxy.url_of(url), url, proxy, [], request.param == POOLED, monkeypatch)
        proxy.speak()


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Processes of a server whose kernel goes on to take what they are sent."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_proxy_that_falls_silent(world: World) -> None:
    """The result is told as not kept; the next executor makes the call again, since the tool honours our key."""
    work = world.acts(2, world.proxy.silence)
    with closing(Runtime(world.here, skills=[work])) as runtime, closing(Runtime(world.there, skills=[work])) as other:
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"done, and not on record: s2$"):
            runtime.run(plan(1, 2, 3))
        assert time.monotonic() - began < PATIENCE_S
        assert world.done == [1, 2]
        before = world.commits()
        world.give_free()
        (ended,) = other.recover()
        assert ended.status == "completed"
        after = world.commits()
        assert after[: len(before)] == before
        world.proxy.speak()
    assert world.commits() == after, "what was on its way finds somebody else's run"
    world.check([1, 2, 2, 3])


def test_a_proxy_that_is_silent_for_a_while(world: World) -> None:
    """As long as the append is tried: nobody else has had to do anything."""
    speak = Timer(0.3 * (10 if REAL else 1), world.proxy.speak)
    work = world.acts(2, lambda: (world.proxy.silence(), speak.start()))
    with closing(Runtime(world.here, skills=[work])) as runtime:
        assert runtime.run(plan(1, 2, 3)).status == "completed"
    world.check([1, 2, 3])


def test_a_session_in_silence(world: World) -> None:
    """The caller is told; what was done is kept with the next call that comes through."""

    def silence() -> None:
        world.proxy.lose_requests(lambda _: True)
        world.proxy.silence()

    work = world.acts(2, silence)
    with closing(Runtime(world.here, skills=[work])) as runtime, runtime.session() as session:
        session.call("work", {"number": 1})
        began = time.monotonic()
        with pytest.raises(StoreError):
            session.call("work", {"number": 2})
        assert time.monotonic() - began < LEASE_MS / 1000
        with pytest.raises(StoreError):
            session.call("work", {"number": 3})
        assert world.done == [1, 2], "nothing is sent while what came before is not on record"
        world.proxy.lose_requests(lambda _: False)
        world.proxy.speak()
        session.call("work", {"number": 4})
    world.check([1, 2, 4])


def test_backends_that_are_stopped(world: World, postgres: Server) -> None:
    """Others take their place; what they still do when they go on is refused, for it is there."""
    held, count = ExitStack(), 1 if world.is_pooled else 4
    work = world.acts(2, lambda: held.enter_context(stopped(postgres.backends()[-count:])))
    with closing(Runtime(world.here, skills=[work])) as runtime, held:
        began = time.monotonic()
        assert runtime.run(plan(1, 2, 3)).status == "completed"
        assert time.monotonic() - began < PATIENCE_S
        held.close()
        before = world.commits()
    assert world.commits() == before
    world.check([1, 2, 3])


@pytest.mark.parametrize("world", ["directly"], indirect=True)
def test_a_server_that_is_stopped(world: World, postgres: Server) -> None:
    """All of it: its kernel takes in whoever connects, and he hears nothing. Later the run goes on elsewhere."""
    (postmaster,) = (postgres.data / "postmaster.pid").read_text().splitlines()[:1]
    held = ExitStack()
    work = world.acts(2, lambda: held.enter_context(stopped([int(postmaster), *postgres.backends()])))
    with closing(Runtime(world.here, skills=[work])) as runtime:
        with held, pytest.raises(StoreError, match=r"done, and not on record: s2$"):
            runtime.run(plan(1, 2, 3))
        assert world.done == [1, 2]
    world.give_free()
    with closing(Runtime(world.there, skills=[work])) as other:
        (ended,) = other.recover()
        assert ended.status == "completed"
    world.check([1, 2, 2, 3] if world.done.count(2) == 2 else [1, 2, 3])


def test_what_a_skill_gave_after_its_run_was_taken_is_left_for_whoever_has_it(world: World) -> None:
    """Its server fell silent, its lease ended, somebody took the run; then the server speaks again."""
    taken: list[object] = []

    def lose() -> None:
        world.proxy.silence()
        world.give_free()
        taken.append(reopen(other, other.store.runs()[0].run_id))
        world.proxy.speak()

    work = world.acts(2, lose)
    with closing(Runtime(world.here, skills=[work])) as runtime, closing(Runtime(world.there, skills=[work])) as other:
        with pytest.raises(ConcurrentExecution):
            runtime.run(plan(1, 2, 3))
        assert world.done == [1, 2]
        result = asyncio.run(conduct(other, taken[0]))  # type: ignore[arg-type]
        assert result.get_step("s2").outcome.output == "done 2"
    world.check([1, 2, 3])
