"""A plan names a function that this machine does not have: people may still vote and cancel."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.errors import PlanError
from reenact.runtime.people import decisions as people
from tests.engines.places import store_at
from tests.runtime.running import LOADS_ANY, plan, step

SENT: list[int] = []


@skill("pay", version="1.0.0", tool_class="write")
async def pay(n: int) -> int:
    SENT.append(n)
    return n


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """A run whose first call waits for a person; the function that asked for one is gone."""
    SENT.clear()
    (tmp_path / "who_is_asked.py").write_text("def decide(proposal): return 'ask'\n")
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[pay], policy=LOADS_ANY)
    with monkeypatch.context() as there:
        there.syspath_prepend(str(tmp_path))
        document = plan(step(pay, {"n": 1}), step(pay, {"n": 2}), supervisor="who_is_asked:decide")
        assert runtime.run(document).status == "waiting"
    (tmp_path / "who_is_asked.py").unlink()
    sys.modules.pop("who_is_asked")
    return runtime


def test_a_call_is_approved_and_the_next_one_is_held_for_the_function(waiting: Runtime) -> None:
    assert asyncio.run(people.vote(waiting, "last", None, approve=True, reason="fine")) == "s0"
    held = waiting.resume("last")
    assert (held.status, SENT) == ("held", [1])
    assert "who_is_asked:decide" in str(held.reason)
    assert "PYTHONPATH" in str(held.reason)


def test_a_call_is_denied(waiting: Runtime) -> None:
    asyncio.run(people.vote(waiting, "last", None, approve=False, reason="no"))
    ended = waiting.resume("last")
    assert (ended.status, ended.final_code, SENT) == ("failed", "ERR_POLICY_VIOLATION", [])


def test_the_run_is_cancelled(waiting: Runtime) -> None:
    assert asyncio.run(people.cancel(waiting, "last", reason="enough"))
    assert waiting.store.find_run("last").status == "cancelled"


def test_a_run_that_nobody_voted_about_goes_on_waiting_and_its_lease_is_given_back(waiting: Runtime) -> None:
    for _ in range(2):
        assert waiting.resume("last").status == "waiting"
    assert SENT == []


def test_a_new_run_is_refused_without_its_function(tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=[pay], policy=LOADS_ANY)
    with pytest.raises(PlanError, match="nowhere:decide"):
        runtime.run(plan(step(pay, {"n": 1}), supervisor="nowhere:decide"))
    assert runtime.store.runs() == []
