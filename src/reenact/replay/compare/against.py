"""A replay held against its recording: how behaviour compares, where it parted and why, and where content differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reenact.contracts.skill import SkillMetadata
from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.replay.compare.behaviour import Aspect, Behaviour, behaviour_of
from reenact.replay.compare.compare import Comparison, compare
from reenact.replay.compare.content import ContentDifference, content_difference
from reenact.replay.compare.explain import explain
from reenact.replay.result import Divergence, ReplayVerdict
from reenact.replay.sources.recorded import NothingRecorded
from reenact.store.base import Store


@dataclass(frozen=True, kw_only=True)
class Against:
    """What every mode that compares says of its replay."""

    steps: Mapping[str, RecordedStep]
    """Those that the replay has come to."""
    comparison: Comparison
    divergence: Divergence | None
    content: tuple[ContentDifference, ...]

    @property
    def verdict(self) -> ReplayVerdict:
        if not self.comparison.steps:
            return "not_compared"
        if self.comparison.matches:
            return "matched"
        return "world_differed" if self.comparison.cause == "world" else "differed"


def hold_against(
    recording: Recording,
    store: Store,
    run_id: str,
    *,
    served: bool,
    skip: Mapping[str, frozenset[Aspect]] | None = None,
    declared: Mapping[str, SkillMetadata] | None = None,
    stop: NothingRecorded | None = None,
) -> Against:
    """The run `run_id` as far as it has come.

    `served` where all effects were: then every aspect is compared, and exactly. `skip` names aspects of single steps
    that mean nothing, `declared` is what the skills of single steps say is stable in what they return, and what is
    not. `stop` is what was asked for and not recorded.
    """
    steps, known = steps_of(store, run_id), declared or {}

    def behaviour(step: RecordedStep) -> Behaviour:
        meta = known.get(step.step_id)
        return behaviour_of(step, exact=served, stable_fields=() if meta is None else meta.stable_fields)

    comparison = compare(
        map(behaviour, recording.steps.values()),
        map(behaviour, steps.values()),
        served=served,
        skip=skip,
        cut_short=recording.status == "cancelled",
    )
    return Against(
        steps=steps,
        comparison=comparison,
        divergence=explain(recording, steps, comparison, stop),
        content=differences_of_content(recording.steps, steps, known),
    )


def differences_of_content(
    expected: Mapping[str, RecordedStep], got: Mapping[str, RecordedStep], declared: Mapping[str, SkillMetadata]
) -> tuple[ContentDifference, ...]:
    found = (
        content_difference(
            expected[step_id], got[step_id], declared[step_id].nondeterministic if step_id in declared else ()
        )
        for step_id in expected
        if step_id in got
    )
    return tuple(difference for difference in found if difference is not None)
