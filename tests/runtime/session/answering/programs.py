"""Programs with a session's id, the tools that they call, and what of that reached the world."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.errors import Diverged
from reenact.runtime.session.sync import SyncSession
from tests.engines.places import store_at

MADE: list[tuple[str, object]] = []
"""What reached the world."""


@skill("look", version="1.0.0", tool_class="read")
def look(what: str) -> dict[str, Any]:
    MADE.append(("look", what))
    return {"zebra": what, "apple": [1, {"z": 1, "a": 2}]}


@skill("pay", version="1.0.0", tool_class="write", idempotent=False)
def pay(amount: int) -> dict[str, Any]:
    MADE.append(("pay", amount))
    if amount == 13:
        raise ValueError("no luck")
    return {"paid": amount}


class Stop(Exception):
    """Stands for the end of a process: the block is left, and nothing is sealed."""


def runtime(path: Path) -> Runtime:
    return Runtime(store_at(path / "store.db"), skills=[look, pay])


Program = Callable[[SyncSession], object]


def start(path: Path, program: Program, **wanted: object) -> object:
    with runtime(path).session(id="order-42", **wanted) as session:  # type: ignore[arg-type]
        return program(session)


def stopped(path: Path, program: Program) -> None:
    """The program, which dies when it has done what it does."""

    def dies(session: SyncSession) -> None:
        program(session)
        raise Stop

    with pytest.raises(Stop):
        start(path, dies)


def recorded(session: SyncSession) -> None:
    session.call("look", {"what": "a"})
    session.call("pay", {"amount": 1})
    session.call("look", {"what": "b"})


def diverging(path: Path, program: Program, **wanted: object) -> Diverged:
    stopped(path, recorded)
    made = list(MADE)
    with pytest.raises(Diverged) as found:
        start(path, program, **wanted)
    assert made == MADE, "nothing is sent"
    assert runtime(path).store.find_run("order-42").status not in ("completed", "failed", "cancelled")
    return found.value
