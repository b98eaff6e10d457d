"""kill -9 while values are erased: all that was to go is there, or all of it is gone and on record."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from reenact.store.checks.verification import verify_run
from tests.engines.places import opened, store_at
from tests.record.erasing.erasing import GOING, STAYING, bytes_of, echo, records, values_of
from tests.record.erasing.killing import erase_all, killed, passed
from tests.runtime.running import Bench

EVERY = os.environ.get("KILL_EVERY")
"""With 1 it is killed at each call and return on its way; the short form at a dozen."""


def places(total: int) -> list[int]:
    return (
        list(range(1, total, int(EVERY))) if EVERY else [1, 3, *range(total // 8, total - 40, total // 8), total - 20]
    )


@pytest.mark.parametrize("step_id", [None, "c1"], ids=["a run", "a step"])
def test_killed_anywhere_the_values_are_there_or_gone_and_the_next_one_goes_on(
    tmp_path: Path, step_id: str | None
) -> None:
    (tmp_path / "whole").mkdir()
    total = passed(*recorded(tmp_path / "whole"), step_id)
    gone = []
    for number in places(total):
        (tmp_path / str(number)).mkdir()
        path, run_id = recorded(tmp_path / str(number))
        assert killed(path, run_id, step_id, number)
        gone.append(is_erased(path, run_id))
        killed(path, run_id, step_id, number)  # and whoever comes next
        is_erased(path, run_id)
        erase_all(path, run_id, step_id)
        assert is_erased(path, run_id)
        assert GOING.encode() not in bytes_of(path.parent), "no byte of it is left, not in the log either"
    print(f"{len(gone)} kills, {sum(gone)} after the values were gone")
    assert (gone[0], gone[-1]) == (False, True)


def recorded(folder: Path) -> tuple[Path, str]:
    """A store with a session of two calls."""
    bench = Bench(folder, echo)
    with bench.runtime.session() as session:
        assert all(session.call("echo", {"text": text}).ok for text in (GOING, STAYING))
    bench.runtime.close()
    return Path(bench.path), session.run_id


def is_erased(path: Path, run_id: str) -> bool:
    """Whether the values are gone. What is gone has its record, the chain is whole, and the log goes on from it."""
    verified = verify_run(store_at(path), run_id)
    assert verified.exit_code == 0, (verified.report.first_break, verified.differences)
    with closing(opened(path)) as store:
        assert store.log.advance() is not None
        erased = len(records(store))
    assert verified.report.counts.payloads - verified.report.counts.present == erased
    assert (GOING.encode() in values_of(str(path))) == (erased == 0)
    return erased > 0
