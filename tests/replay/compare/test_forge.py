"""The forge itself: unchanged it gives the same run back, so that whatever a mutation shows is the mutation's."""

from __future__ import annotations

from tests.replay.compare.forge import Forge
from tests.replay.compare.mutating import crashed_recording, recording
from tests.replay.recording import mocked


def test_a_recording_that_is_put_together_unchanged_is_the_same_one() -> None:
    for original in (recording(), crashed_recording()):
        forged = Forge(original).recording()
        assert list(forged.store.bodies(forged.run_id)) == list(original.store.bodies(original.run_id))
        assert mocked(forged).matches
