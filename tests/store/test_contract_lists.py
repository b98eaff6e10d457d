"""What a store must do where it has many runs: lists of them page by page, and what they add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reenact.contracts.records import RunStatus
from reenact.errors import RunNotFound
from reenact.store.base import Store, Tally
from tests.store.units import Run

STATUSES: tuple[RunStatus, ...] = ("running", "waiting", "held", "running", "completed", "failed", "waiting", "running")


@pytest.fixture
def filled(store: Store) -> Store:
    """Runs of several statuses, of which every second one replayed the first."""
    for number, status in enumerate(STATUSES):
        run = Run(f"run-{number}")
        unit, taken = run.unit()
        assert unit.new_run is not None
        unit.new_run = replace(unit.new_run, parent_run="run-0" if number % 2 else None)
        done = store.append(unit, None, owner="a")
        taken(done)
        ended = status in ("completed", "failed")
        store.append(run.unit(status=status, sealed=ended)[0], done.lease)
    return store


def ids(store: Store, *status: RunStatus, limit: int | None = None, before: str | None = None) -> str:
    return "".join(row.run_id[-1] for row in store.runs(status=status or None, limit=limit, before=before))


def test_runs_are_listed_the_newest_first_from_any_run_on(filled: Store) -> None:
    assert ids(filled) == "76543210"
    assert ids(filled, limit=3) == "765"
    assert ids(filled, limit=3, before="run-5") == "432"
    assert ids(filled, before="run-0") == ""
    with pytest.raises(RunNotFound):
        filled.runs(before="nobody")


def test_of_several_statuses_the_newest_of_all_are_listed(filled: Store) -> None:
    assert ids(filled, "running", "waiting") == "76310"
    assert ids(filled, "waiting", "running", "waiting", limit=2) == "76"
    assert ids(filled, "running", "waiting", limit=2, before="run-6") == "31"
    assert ids(filled, "completed") == "4"
    assert ids(filled, "pending") == ""


def test_the_runs_that_have_a_parent_are_found_by_it(filled: Store) -> None:
    assert [row.run_id for row in filled.replays("run-0")] == ["run-7", "run-5", "run-3", "run-1"]
    assert filled.replays("run-1") == []


def test_runs_that_ended_are_counted_from_any_seal_on(filled: Store) -> None:
    assert [(number, row.run_id, row.status) for number, row in filled.sealed(0, 10)] == [
        (1, "run-4", "completed"),
        (2, "run-5", "failed"),
    ]
    assert [number for number, _ in filled.sealed(0, 1)] == [1]
    assert [row.commits for _, row in filled.sealed(1, 10)] == [2]
    assert filled.sealed(2, 10) == []


def test_a_tally_is_kept_by_whoever_counted_furthest(store: Store) -> None:
    assert store.tally("t") is None
    assert store.keep_tally("t", Tally(5, b"five"))
    assert not store.keep_tally("t", Tally(5, b"somebody else's"))
    assert not store.keep_tally("t", Tally(4, b"late"))
    assert store.keep_tally("t", Tally(6, b"\0six"))
    assert (store.tally("t"), store.tally("u")) == (Tally(6, b"\0six"), None)
