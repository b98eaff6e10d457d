"""Whatever a plan does, its mock replay behaves the same in every aspect, with the skills' code and without it."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from reenact import Registry
from tests.replay.random_plans import Case, cases
from tests.replay.recording import mocked, recorded


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(cases())
def test_the_mock_replay_of_any_run_matches_in_all_aspects(case: Case) -> None:
    recording = recorded(case.plan, case.crashes)
    for skills in (None, Registry()):
        result = mocked(recording, skills)
        assert result.verdict == "matched", (result.divergence, result.comparison)
        assert set(result.behavior_match.values()) == {True}
        assert result.content == ()
