"""A program that is not the one that began: each change its kind of Diverged, its place, and no byte sent."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import Diverged
from reenact.runtime.session.answering.answers import Answers
from reenact.runtime.session.sync import SyncSession
from tests.engines.places import store_at

SENT: list[tuple[str, object]] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


@skill("ask_model", version="1.0.0", tool_class="read", idempotent=False)
def ask_model(system: str, tools: list[str]) -> dict[str, Any]:
    SENT.append(("ask_model", system))
    return {"say": "pay"}


@skill("pay", version="1.0.0", tool_class="write", idempotent=False)
def pay(to: str, amount: int) -> dict[str, Any]:
    SENT.append(("pay", amount))
    return {"paid": amount}


@skill("transfer", version="1.0.0", tool_class="write", idempotent=False)
def transfer(to: str, amount: int) -> dict[str, Any]:
    SENT.append(("transfer", amount))
    return {"paid": amount}


@dataclass(frozen=True)
class Program:
    """An agent with what may be said otherwise."""

    system: Callable[[], str] = lambda: "You pay bills."
    tools: Callable[[], list[str]] = lambda: ["pay", "look"]
    amount: int = 100
    tool: str = "pay"
    asks_first: bool = True
    pays_twice: bool = False
    ends_early: bool = False

    def __call__(self, session: SyncSession) -> None:
        if self.asks_first:
            session.call("ask_model", {"system": self.system(), "tools": self.tools()})
        if self.ends_early:
            return
        session.call(self.tool, {"to": "anna", "amount": self.amount})
        if self.pays_twice:
            session.call(self.tool, {"to": "ben", "amount": self.amount})
        session.call("ask_model", {"system": "Say that it is done.", "tools": []})


def start(path: Path, program: Program, *, dies: bool = False) -> None:
    runtime = Runtime(store_at(path / "store.db"), skills=[ask_model, pay, transfer])
    with runtime.session(id="bill-7") as session:
        program(session)
        if dies:
            raise KeyError("the process ends here")


def with_a_clock() -> str:
    return f"You pay bills. It is {time.time_ns()}."


def shuffled() -> list[str]:
    names = [f"tool {number}" for number in range(40)]
    random.Random(os.urandom(8)).shuffle(names)
    return names


CHANGES = [
    pytest.param(*[Program(system=with_a_clock)] * 2, "other_arguments", "/system", id="a clock"),
    pytest.param(*[Program(tools=shuffled)] * 2, "other_arguments", None, id="a shuffled tool list"),
    pytest.param(Program(), Program(amount=250), "other_arguments", "/amount", id="a changed amount"),
    pytest.param(Program(), Program(asks_first=False), "another_call", None, id="a call left out"),
    pytest.param(Program(), Program(pays_twice=True), "another_call", None, id="a call added"),
    pytest.param(Program(), Program(tool="transfer"), "another_call", None, id="a tool renamed"),
    pytest.param(Program(), Program(ends_early=True), "not_asked", None, id="an older program"),
]


@pytest.mark.parametrize(("first", "second", "kind", "pointer"), CHANGES)
def test_each_change_is_told_and_nothing_is_sent(
    tmp_path: Path, first: Program, second: Program, kind: str, pointer: str | None
) -> None:
    with pytest.raises(KeyError):
        start(tmp_path, first, dies=True)
    before = list(SENT)
    with pytest.raises(Diverged) as found:
        start(tmp_path, second)
    assert found.value.kind == kind
    if pointer is not None:
        assert found.value.pointer == pointer
    elif kind == "other_arguments":
        assert str(found.value.pointer).startswith("/tools/")
    assert before == SENT
    store = Runtime(store_at(tmp_path / "store.db")).store
    assert store.find_run("bill-7").status not in ("completed", "cancelled", "failed")


def test_with_the_check_switched_off_it_pays_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check is for."""
    changed = Program(system=lambda: "You pay bills, kindly.", amount=101)
    with pytest.raises(KeyError):
        start(tmp_path, Program(), dies=True)
    monkeypatch.setattr(Answers, "_find", lambda *_: None)
    monkeypatch.setattr(Answers, "refuse_not_asked", lambda *_, **__: None)
    start(tmp_path, changed)
    assert [call for call in SENT if call[0] == "pay"] == [("pay", 100), ("pay", 101)]
