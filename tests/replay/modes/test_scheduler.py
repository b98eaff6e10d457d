"""Calls that overlapped are decided again in the order in which they were decided, wherever their lines stand."""

from __future__ import annotations

from reenact.replay.modes.scheduler import Made, Moment, Moments, as_made, begin_of_ids, insert_by_place
from reenact.values.clock import FixedClock


def test_what_stands_in_one_commit_is_taken_by_its_ids() -> None:
    lines = [Made(key, []) for key in ("019b-0004", "019b-0003", "019b-0001", "019b-0005", "019b-0002")]
    assert [each.key[-1] for each in as_made(lines)] == ["1", "2", "3", "4", "5"]


def test_what_tells_its_place_stands_there_whatever_its_time() -> None:
    found = Moments()._in_order(
        [
            Made("019b-0009", [Moment("c1", "result")], after=1),
            Made("019b-0001", [Moment("c2", "decided")]),
            Made("019b-0003", [Moment("c3", "result"), Moment("c3", "ended")], records=2),
            Made("", [Moment("c4", "again")], after=4),
            Made("019b-0004", [Moment("c5", "decided")]),
        ]
    )
    taken = [(moment.step_id, moment.kind, moment.place) for moment in found]
    assert taken == [
        ("c2", "decided", 0), ("c1", "result", 1), ("c3", "result", 2), ("c3", "ended", 2),
        ("c4", "again", 4), ("c5", "decided", 5),
    ]  # fmt: skip


def test_a_retry_asks_for_money_where_its_record_says() -> None:
    moments = [
        Moment("c1", "result", place=0), Moment("c2", "begins"), Moment("c2", "decided", place=1),
        Moment("c3", "decided", place=2), Moment("c1", "result", place=3),
    ]  # fmt: skip
    insert_by_place(moments, Moment("c1", "again", place=2))
    assert [(each.step_id, each.kind) for each in moments][2:5] == [
        ("c2", "decided"), ("c1", "again"), ("c3", "decided"),
    ]  # fmt: skip


def test_a_result_without_an_id_stands_where_the_ids_of_its_time_begin() -> None:
    clock = FixedClock()
    before = clock.uuid7()
    clock.advance(0.002)
    time = begin_of_ids(clock.timestamp())
    assert before < time < clock.uuid7()
