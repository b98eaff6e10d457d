"""A program that goes another way and catches that: it makes nothing new any more, and meets it again at its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.errors import Diverged
from reenact.runtime.session.sync import SyncSession
from tests.runtime.session.answering.programs import MADE, runtime, start, stopped


def verified(session: SyncSession) -> None:
    session.verify(["true"])
    session.call("pay", {"amount": 1})


def catches(does: Callable[[], object]) -> None:
    with pytest.raises(Diverged):
        does()


def test_other_commands_that_are_caught_stop_a_program_like_another_call(tmp_path: Path) -> None:
    stopped(tmp_path, verified)

    def checks_otherwise(session: SyncSession) -> None:
        catches(lambda: session.verify(["false"]))
        session.call("pay", {"amount": 1})
        catches(lambda: session.call("pay", {"amount": 2}))

    with pytest.raises(Diverged, match="/0: true → false"):
        start(tmp_path, checks_otherwise)
    start(tmp_path, verified)
    assert MADE == [("pay", 1)]


def test_other_commands_go_on_as_another_run_where_the_host_wants_that(tmp_path: Path) -> None:
    stopped(tmp_path, verified)

    def checks_otherwise(session: SyncSession) -> list[object]:
        return [session.verify(["false"]), session.call("look", {"what": "more"}).output]

    wanted = {"on_divergence": "fork", "accept": ["main:1"]}
    first = start(tmp_path, checks_otherwise, **wanted)
    assert start(tmp_path, checks_otherwise) == first
    assert [row.status for row in runtime(tmp_path).store.runs()] == ["completed", "cancelled"]
    assert MADE == [("pay", 1), ("look", "more")]


def test_a_write_that_was_not_accepted_stops_a_program_that_catches_it(tmp_path: Path) -> None:
    def pays_below(session: SyncSession) -> None:
        session.call("look", {"what": "a"})
        with session.lane("below"):
            session.call("pay", {"amount": 1})

    def looks_otherwise(session: SyncSession) -> None:
        catches(lambda: session.call("look", {"what": "b"}))
        with session.lane("beside"):
            catches(lambda: session.call("pay", {"amount": 2}))

        catches(lambda: session.verify(["true"]))

    stopped(tmp_path, pays_below)
    with pytest.raises(Diverged, match="a → b") as found:
        start(tmp_path, looks_otherwise, on_divergence="fork")
    assert "accept=['main.below:1']" in found.value.__notes__[0], "the first says what helps"
    assert MADE == [("look", "a"), ("pay", 1)]


@pytest.mark.parametrize("ask", [lambda s: s.verify(["false"]), lambda s: s.now(), lambda s: s.turn()])
def test_in_a_test_what_is_told_otherwise_fails_it_also_where_it_is_caught(
    tmp_path: Path, ask: Callable[[SyncSession], object]
) -> None:
    def asks(session: SyncSession) -> None:
        catches(lambda: ask(session))
        session.call("pay", {"amount": 1})

    start(tmp_path, verified)
    with pytest.raises(Diverged), runtime(tmp_path).session(replay="order-42") as session:
        asks(session)
