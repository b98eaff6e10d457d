"""A replay held against its recording: how behaviour compares, where it parted and why, and where content differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reenact.record.reader import RecordedStep, steps_of
from reenact.record.recording import Recording
from reenact.replay.compare.behaviour import Aspect, behaviour_of
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
        return "matched" if self.comparison.matches else "differed"


def hold_against(
    recording: Recording,
    store: Store,
    run_id: str,
    *,
    served: bool,
    skip: Mapping[str, frozenset[Aspect]] | None = None,
    stop: NothingRecorded | None = None,
) -> Against:
    """The run `run_id` as far as it has come.

    `served` where all effects were: then every aspect is compared, and exactly. `skip` names aspects of single steps
    that mean nothing, `stop` is what was asked for and not recorded.
    """
    steps = steps_of(store, run_id)
    comparison = compare(
        (behaviour_of(step, exact=served) for step in recording.steps.values()),
        (behaviour_of(step, exact=served) for step in steps.values()),
        served=served,
        skip=skip,
    )
    return Against(
        steps=steps,
        comparison=comparison,
        divergence=explain(recording, steps, comparison, stop),
        content=differences_of_content(recording.steps, steps),
    )


def differences_of_content(
    expected: Mapping[str, RecordedStep], got: Mapping[str, RecordedStep]
) -> tuple[ContentDifference, ...]:
    found = (content_difference(expected[step_id], got[step_id]) for step_id in expected if step_id in got)
    return tuple(difference for difference in found if difference is not None)
