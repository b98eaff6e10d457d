"""The README's agent, killed at every crash point and inside its tool, and started again: one charge."""

from __future__ import annotations

import asyncio
import builtins
import os
import runpy
import signal
from collections.abc import Iterable
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.errors import WaitingForPerson
from reenact.runtime.crash_points import CRASH_POINTS
from reenact.runtime.people.decisions import resolve
from tests.crash.harness import KILLED, in_child
from tests.docs.pages import blocks
from tests.engines.places import store_at

INSIDE = ("before the charge", "after the charge")
WHILE_OPEN = ("before_dispatch:2", "before the charge", "before_redispatch_record", "after_redispatch_record", *INSIDE)
"""Where the session is killed again and again without coming any further."""
README = Path(__file__).resolve().parents[2] / "README.md"
IN_A_FILE = "sqlite:///agents.db"
KEYED = "if ctx.idempotency_key not in books.read():"
LOOKED_UP = '''
def was_it_charged(ctx: SkillContext, order: str, cents: int) -> dict[str, object]:
    with open("charges.txt", "a+") as books:
        books.seek(0)
        found = ctx.idempotency_key in books.read()
    return {"done": found, "output": f"receipt of order {order}"} if found else {"done": False}


@skill("charge"'''


def store_of(folder: Path) -> str:
    """A team that outgrows a file changes one URL, and nothing else."""
    return store_at(f"sqlite:///{folder / 'agents.db'}")


def agent() -> str:
    (block,) = [block for block in blocks(README) if block.file == "agent.py"]
    assert IN_A_FILE in block.body
    return block.body


def without_keys(declared: str) -> str:
    """The same agent with a provider that charges for every request."""
    changed = agent().replace(KEYED, "if True:").replace("honours_key=True", declared)
    assert KEYED not in changed
    return changed


def with_deaths(source: str) -> str:
    """`die` is asked inside the tool, right before and right after the money is taken."""
    before = source.replace("        books.seek(0)\n", '        die("before the charge")\n        books.seek(0)\n')
    return before.replace('    return f"receipt', '    die("after the charge")\n    return f"receipt')


def put(folder: Path, source: str) -> None:
    (folder / "agent.py").write_text(with_deaths(source).replace(IN_A_FILE, store_of(folder)))


def start(folder: Path, killed_at: str | None = None) -> int:
    """The program from its top, in a process of its own: the signal that ended it, 0 where it came to an end."""

    def die(place: str) -> None:
        if place == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def program() -> None:
        os.chdir(folder)
        builtins.die = die  # type: ignore[attr-defined]
        with suppress(WaitingForPerson):  # after three deaths in one call
            runpy.run_path("agent.py", run_name="__main__")

    return in_child(program, crash_at=None if killed_at in INSIDE else killed_at)


def charges(folder: Path) -> list[str]:
    books = folder / "charges.txt"
    return books.read_text().splitlines() if books.exists() else []


def finish(folder: Path) -> None:
    """Started again until it has ended; what is in doubt is resolved by looking at the provider's books."""
    for _ in range(3):
        assert start(folder) == 0
        runtime = Runtime(store_of(folder))
        if runtime.store.find_run("order-42").status == "completed":
            assert runtime.recover() == [], "nothing is left to recover"
            return
        word = "succeeded" if charges(folder) else "redispatch"
        asyncio.run(resolve(runtime, "order-42", "main:2", word, reason="the books say so", who="kim"))  # type: ignore[arg-type]
        runtime.close()
    raise AssertionError("it never ended")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, agent())
    return tmp_path


def test_it_is_an_agent_of_less_than_25_lines() -> None:
    assert len(agent().splitlines()) < 25
    assert 'if __name__ == "__main__":' in agent()


@pytest.mark.parametrize("point", [*CRASH_POINTS, *INSIDE])
def test_killed_at_a_point_and_started_again_it_has_charged_once(folder: Path, point: str) -> None:
    places = [f"{point}:{n}" for n in (1, 2, 3)] if point in CRASH_POINTS else [point]
    deaths = 0
    for place in places:
        inside = folder / str(places.index(place))
        inside.mkdir()
        put(inside, agent())
        deaths += start(inside, place) == KILLED
        assert start(inside) == 0
        assert len(charges(inside)) == 1
    rare = ("before_attempt_record", "after_attempt_record", "in_backoff")  # of attempts that failed
    assert deaths or point in rare or "redispatch" in point


def killed_often(folder: Path, source: str, places: Iterable[str], *, again: bool = False) -> None:
    """Each start is killed while the charge is open, as long as it gets there; then it is allowed to end."""
    put(folder, source)
    deaths = 0
    for place in places:
        deaths += start(folder, place) == KILLED
        assert len(charges(folder)) <= 1
        if again:
            send_again(folder)
    assert deaths > 0
    finish(folder)
    assert len(charges(folder)) == 1


def send_again(folder: Path) -> None:
    """After three deaths in one call a person is asked: this one has patience."""
    runtime = Runtime(store_of(folder))
    if runtime.store.find_run("order-42").status == "held":
        asyncio.run(resolve(runtime, "order-42", "main:2", "redispatch", reason="once more", who="kim"))
    runtime.close()


def test_killed_a_hundred_times_it_has_charged_once(folder: Path) -> None:
    killed_often(folder, agent(), islice(cycle(WHILE_OPEN), 100), again=True)


@pytest.mark.parametrize("first", INSIDE)
@pytest.mark.parametrize("declared", ['in_doubt="hold"', 'in_doubt="reconcile", reconcile=was_it_charged'])
def test_a_provider_without_keys_is_asked_once_or_in_doubt(folder: Path, declared: str, first: str) -> None:
    source = without_keys(declared)
    if "reconcile" in declared:
        source = source.replace('\n@skill("charge"', LOOKED_UP)
    killed_often(folder, source, [first, *WHILE_OPEN])


def test_a_provider_without_keys_that_is_sent_to_again_sees_the_same_key_each_time(folder: Path) -> None:
    put(folder, without_keys('in_doubt="redispatch"'))
    assert start(folder, "after the charge") == KILLED
    assert start(folder) == 0
    assert len(charges(folder)) == 2, "at least once, as the failure model says"
    assert len(set(charges(folder))) == 1
