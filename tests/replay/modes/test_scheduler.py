"""Calls that overlapped are decided again in the order in which they were decided, wherever their lines stand."""

from __future__ import annotations

from reenact.replay.modes.scheduler import Moment, as_made, begin_of_ids
from reenact.values.clock import FixedClock


def test_what_stands_in_one_commit_is_taken_by_its_ids() -> None:
    lines = [
        Moment("c1", "result", "019b-0004"),
        Moment("c1", "decided", "019b-0003"),
        Moment("c2", "decided", "019b-0001"),
        Moment("c3", "result", "019b-0005"),
        Moment("c4", "decided", "019b-0002"),
    ]
    taken = [(moment.step_id, moment.kind) for moment in as_made(lines)]
    assert taken == [("c2", "decided"), ("c4", "decided"), ("c1", "decided"), ("c1", "result"), ("c3", "result")]


def test_a_result_without_an_id_stands_where_the_ids_of_its_time_begin() -> None:
    clock = FixedClock()
    before = clock.uuid7()
    clock.advance(0.002)
    time = begin_of_ids(clock.timestamp())
    assert before < time < clock.uuid7()
