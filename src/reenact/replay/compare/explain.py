"""The first divergence in words, with the recorded call that comes nearest."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.record.reader import RecordedStep
from reenact.record.recording import Recording
from reenact.replay.compare.compare import Comparison, Difference
from reenact.replay.compare.nearest import Wanted, nearest_call, wanted_by
from reenact.replay.result import Divergence, Nearest
from reenact.replay.sources.recorded import NothingRecorded
from reenact.values.canonical import canonicalize


def explain(
    recording: Recording, steps: Mapping[str, RecordedStep], comparison: Comparison, stop: NothingRecorded | None
) -> Divergence | None:
    """The first divergence in words, with the recorded call that comes nearest."""
    first = comparison.first
    if first is None:
        return None
    asked = stop if stop is not None and stop.step.step_id == first.step_id else None
    nearest = None
    if asked is not None:
        step = asked.step
        nearest = nearest_call(recording, Wanted(step.step_id, step.skill_id, step.skill_version, asked.parameters))
    elif first.step_id in steps:
        nearest = nearest_call(recording, wanted_by(steps[first.step_id]))
    return Divergence(
        difference=first,
        asked=None if asked is None else asked.asked,
        nearest=nearest,
        explanation=in_words(first, asked, nearest),
    )


def in_words(first: Difference, asked: NothingRecorded | None, nearest: Nearest | None) -> str:
    said = f"step {first.step_id}, {first.when}: {first.aspect} was {shown(first.expected)}, is {shown(first.got)}"
    if asked is not None:
        said += f"; the replay asked for {asked.asked}"
    if nearest is not None:
        said += f"; the nearest recorded call is {nearest.step_id} ({nearest.skill}"
        said += ")" if nearest.attempt is None else f", attempt {nearest.attempt}, {nearest.code})"
        if nearest.differs_in:
            said += f", which differs in {', '.join(nearest.differs_in)}"
    return said


def shown(value: object) -> str:
    return value if isinstance(value, str) else canonicalize(value).decode()
