"""A person resolves a call in doubt while another process has its session open: the word waits, and is not lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import UsageError
from reenact.record.reader import steps_of
from reenact.runtime.people import decisions as people
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at

SENT: list[int] = []


@skill("pay", version="1.0.0", tool_class="write", in_doubt="hold")
async def pay(amount: int) -> dict[str, int]:
    SENT.append(amount)
    if len(SENT) == 1:
        raise ConnectionResetError(104, "cut off")
    return {"paid": amount}


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


def another(folder: Path) -> Runtime:
    return Runtime(store_at(folder / "store.db"), skills=[pay])


def say(folder: Path, how: people.Resolution, output: Any = None) -> bool:
    return asyncio.run(people.resolve(another(folder), "order-42", "main:1", how, reason="I looked", output=output))


def ended(folder: Path) -> tuple[str, Any]:
    store = another(folder).store
    row = store.find_run("order-42")
    found = verify_run(store_at(folder / "store.db"), "order-42")
    assert found.exit_code == 0, (found.report.first_break, found.differences)
    return row.status, steps_of(store, row.run_id)["main:1"].outcome().output


def test_whoever_has_it_open_hears_it_and_seals(tmp_path: Path) -> None:
    with another(tmp_path).session(id="order-42") as session:
        assert session.call("pay", {"amount": 5}).code == "ERR_IN_DOUBT"
        assert say(tmp_path, "succeeded", {"paid": 5}) is False
        with pytest.raises(UsageError, match="was resolved already"):
            say(tmp_path, "failed")
    assert ended(tmp_path) == ("completed", {"paid": 5})
    assert another(tmp_path).replay("order-42").matches


def test_one_that_dies_before_it_heard_leaves_it_to_the_next(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), another(tmp_path).session(id="order-42") as session:
        session.call("pay", {"amount": 5})
        say(tmp_path, "succeeded", {"paid": 5})
        raise ZeroDivisionError
    with another(tmp_path).session(id="order-42") as session:
        assert session.call("pay", {"amount": 5}).output == {"paid": 5}
    assert ended(tmp_path) == ("completed", {"paid": 5})
    assert SENT == [5]


def test_freed_it_is_sent_once(tmp_path: Path) -> None:
    with another(tmp_path).session(id="order-42") as session:
        session.call("pay", {"amount": 5})
        say(tmp_path, "redispatch")
        assert [each.output for each in session.settle()] == [{"paid": 5}]
        assert session.settle() == []
    assert ended(tmp_path) == ("completed", {"paid": 5})
    assert SENT == [5, 5]


def test_a_cancel_hears_it_first(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), another(tmp_path).session(id="order-42") as session:
        session.call("pay", {"amount": 5})
        say(tmp_path, "succeeded", {"paid": 5})
        raise ZeroDivisionError
    assert asyncio.run(people.cancel(another(tmp_path), "order-42", reason="enough"))
    assert ended(tmp_path) == ("cancelled", {"paid": 5})


def test_a_call_that_is_under_way_there_is_not_judged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with another(tmp_path).session(id="order-42") as session:
            SENT.append(0)
            assert (await session.call("pay", {"amount": 5})).ok
            with pytest.raises(UsageError, match="not in doubt"):
                await people.resolve(another(tmp_path), "order-42", "main:1", "failed", reason="I looked")

    asyncio.run(scenario())
