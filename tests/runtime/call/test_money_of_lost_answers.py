"""What a call in doubt may have cost counts for every run of its agent, whatever people say about others meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import WaitingForPerson
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.people import decisions as people
from tests.engines.places import store_at

CUT: list[str] = []
DAY: dict[str, Any] = {"agent_id": "buyer", "context": {"budget": {"per_day_cents": 10}}}


@skill("buy", version="1.0.0", tool_class="write", in_doubt="hold", cost_estimate_cents=4)
def buy(what: str) -> str:
    if what in CUT:
        raise ConnectionResetError(104, "cut off")
    return what


@skill("sign", version="1.0.0", tool_class="write")
def sign(what: str) -> str:
    return what


def supervisor(proposal: Proposal) -> bool | str:
    return "ask" if proposal.skill_id == "sign" else True


def runtime(folder: Path) -> Runtime:
    return Runtime(store_at(folder / "store.db"), skills=[buy, sign], supervisor=supervisor)


def others_can_buy(folder: Path) -> int:
    """How many purchases of four cents another run of the agent is allowed."""
    with runtime(folder).session(**DAY) as session:
        return [session.call("buy", {"what": what}).ok for what in ("x", "y", "z")].count(True)


@pytest.fixture
def in_doubt(tmp_path: Path) -> Path:
    """A session that bought twice without an answer, and asks about something else: eight cents are set apart."""
    CUT[:] = ["a", "b"]
    with runtime(tmp_path).session(id="order-42", **DAY) as session:
        assert [session.call("buy", {"what": what}).code for what in CUT] == ["ERR_IN_DOUBT"] * 2
        with pytest.raises(WaitingForPerson):
            session.call("sign", {"what": "c"})
    return tmp_path


def test_it_counts(in_doubt: Path) -> None:
    assert others_can_buy(in_doubt) == 0


def test_it_counts_after_a_vote_about_another_call(in_doubt: Path) -> None:
    asyncio.run(people.vote(runtime(in_doubt), "order-42", "main:3", approve=True, reason="fine"))
    assert others_can_buy(in_doubt) == 0


def test_it_counts_after_another_call_was_resolved_and_no_longer_when_it_is(in_doubt: Path) -> None:
    asyncio.run(people.resolve(runtime(in_doubt), "order-42", "main:1", "failed", reason="looked"))
    assert others_can_buy(in_doubt) == 1, "four cents are free again, four are not"
    asyncio.run(people.resolve(runtime(in_doubt), "order-42", "main:2", "failed", reason="looked"))
    assert others_can_buy(in_doubt) == 1, "four were spent just now"
