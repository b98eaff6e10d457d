"""Which recorded call comes nearest to one that has no record, and in what they differ."""

from __future__ import annotations

from typing import NamedTuple

from reenact.record.reader import RecordedStep
from reenact.record.recording import Recording
from reenact.replay.compare.content import differing
from reenact.replay.result import Nearest

MOST_NAMED = 10


class Wanted(NamedTuple):
    """A call for which the nearest recorded one is sought."""

    step_id: str
    skill_id: str
    skill_version: str | None
    parameters: object


def wanted_by(step: RecordedStep) -> Wanted:
    version = step.trace.meta("skill_version")
    return Wanted(
        step.step_id,
        str(step.trace.meta("skill_id")),
        version if isinstance(version, str) else None,
        step.parameters(),
    )


def nearest_call(recording: Recording, wanted: Wanted) -> Nearest | None:
    """The same step if it was recorded; else the call of the same skill, or of any, with the fewest differences."""
    own = recording.steps.get(wanted.step_id)
    candidates = [own] if own is not None else list(recording.steps.values())
    if not candidates:
        return None
    scored = [(distance(candidate, wanted), candidate) for candidate in candidates]
    (_, _, pointers), chosen = min(scored, key=lambda item: (item[0][0], item[0][1], item[1].trace.step_index))
    last = chosen.trace.attempts[-1] if chosen.trace.attempts else None
    return Nearest(
        step_id=chosen.step_id,
        skill=f"{chosen.trace.meta('skill_id')}@{chosen.trace.meta('skill_version')}",
        attempt=None if last is None else last.attempt,
        code=None if last is None else last.code,
        differs_in=tuple(pointers[:MOST_NAMED]),
    )


def distance(candidate: RecordedStep, wanted: Wanted) -> tuple[int, int, list[str]]:
    """(how far the skill is, in how many places the parameters differ, which)."""
    skill = 0
    if candidate.trace.meta("skill_id") != wanted.skill_id:
        skill = 2
    elif candidate.trace.meta("skill_version") != wanted.skill_version:
        skill = 1
    recorded = candidate.parameters()
    if not isinstance(wanted.parameters, dict) or not isinstance(recorded, dict):
        return skill, 0, []
    pointers = list(differing(recorded, wanted.parameters, ""))
    return skill, len(pointers), pointers
