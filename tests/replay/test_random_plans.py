"""Whatever a plan does, its mock replay behaves the same in every aspect, with the skills' code and without it."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, seed, settings

from reenact import Registry
from tests.engines import places
from tests.replay.random_plans import Case, cases
from tests.replay.recording import mocked, recorded
from tests.replay.skills import supervisor

PLANS = int(os.environ.get("RANDOM_PLANS", "400"))
SHARDS = 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_mock_replay_of_any_run_matches_in_all_aspects(shard: int) -> None:
    """Four hundred in all, RANDOM_PLANS for more; in shards, so that they can run beside each other."""

    few = 10 if places.database is not None else 1  # each in a schema of its own

    @seed(shard)
    @settings(max_examples=PLANS // SHARDS // few, suppress_health_check=list(HealthCheck), database=None)
    @given(cases())
    def matches(case: Case) -> None:
        recording = recorded(case.plan, case.crashes, host=supervisor if case.hosted else None)
        for skills in (None, Registry()):
            result = mocked(recording, skills)
            assert result.verdict == "matched", (result.divergence, result.comparison)
            assert set(result.behavior_match.values()) == {True}
            assert result.content == ()

    matches()
