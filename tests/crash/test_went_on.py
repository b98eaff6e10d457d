"""The short form of kills around a program that goes on without an answer; `tests.crash.going_on` has all of them."""

from __future__ import annotations

import pytest

from tests.crash.going_on import BEFORE, deaths
from tests.crash.harness import Stage

POINTS = ("after_commit", "before_dispatch", "after_dispatch")


@pytest.mark.parametrize("kind", ["held", "asked"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point_it_goes_the_way_that_is_on_record(stage: Stage, kind: str, point: str) -> None:
    answers = deaths(stage.folder, kind, point)
    assert ["instead", 2] in answers, "none died after its caller had gone on"


@pytest.mark.parametrize("kind", ["keyed", "looked up"])
def test_killed_in_the_start_after_that_it_still_does(stage: Stage, kind: str) -> None:
    for point in ("before_dispatch", "before_seal"):
        assert deaths(stage.folder, kind, point, BEFORE["the next start"])[0] == ["instead", 2]
