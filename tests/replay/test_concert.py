"""Calls that overlapped are decided again in the order in which they were decided, wherever their lines stand."""

from __future__ import annotations

from reenact.replay.concert import Moment, as_decided


def test_decisions_of_one_commit_are_taken_by_their_ids() -> None:
    lines = [
        Moment("c1", "result"),
        Moment("c1", "decided", "019b-0003"),
        Moment("c2", "decided", "019b-0001"),
        Moment("c3", "result"),
        Moment("c4", "decided", "019b-0002"),
    ]
    assert [moment.step_id for moment in as_decided(lines)] == ["c1", "c2", "c4", "c3", "c1"]
    assert [moment.kind for moment in as_decided(lines)] == [moment.kind for moment in lines]
