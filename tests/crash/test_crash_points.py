"""kill -9 at every named crash point, five times each, and twice in a row."""

from __future__ import annotations

import pytest

from reenact.runtime.crash_points import CRASH_POINTS
from tests.crash.harness import KILLED, Stage, check_survived, in_child, look, recover

IN_RECOVERY = ("before_redispatch_record", "after_redispatch_record")
ALSO_IN_RECOVERY = ("before_commit", "after_commit", "before_dispatch", "after_dispatch", "before_seal")
TIMES = range(1, 6)
RUNS = 5
"""A child makes five runs, so that a point which a run reaches once is reached five times."""


def five_runs(stage: Stage) -> None:
    runtime = stage.runtime()
    for number in range(RUNS):
        runtime.run(stage.plan(f"p{number}"))


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point not in IN_RECOVERY])
@pytest.mark.parametrize("times", TIMES)
def test_a_run_survives_kill_9_at(point: str, times: int, stage: Stage) -> None:
    assert in_child(lambda: five_runs(stage), crash_at=f"{point}:{times}") == KILLED
    before = look(stage)
    recover(stage)
    check_survived(stage, before)


@pytest.mark.parametrize("point", [*IN_RECOVERY, *ALSO_IN_RECOVERY])
@pytest.mark.parametrize("times", TIMES)
def test_a_run_survives_kill_9_during_its_recovery_twice_in_a_row_at(point: str, times: int, stage: Stage) -> None:
    """The first crash leaves a call in doubt, each time another one; recovery itself then dies twice."""
    assert in_child(lambda: stage.runtime().run(stage.plan()), crash_at=f"after_dispatch:{times}") == KILLED
    for _ in range(2):
        before = look(stage)
        assert in_child(lambda: recover(stage), crash_at=point) == KILLED
        assert look(stage).runs.keys() == before.runs.keys()
    before = look(stage)
    recover(stage)
    check_survived(stage, before)
