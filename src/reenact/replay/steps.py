"""What the modes share: the steps of a run as recorded, and where content differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reenact.replay.content import ContentDifference, content_difference
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.reader import RecordedStep, RunReader
from reenact.store.base import Store


def steps_of(store: Store, run_id: str) -> dict[str, RecordedStep]:
    """By step id, in the order of their requests; also those that have not ended."""
    return in_order(RunReader(store, run_id).steps())


def in_order(steps: Iterable[RecordedStep]) -> dict[str, RecordedStep]:
    """Calls of a session may end in any order, and so may those of the run that replays it.

    They began in the order of their commits, and ids of traces grow; the place that the plan gives them is not asked.
    """
    begun = sorted(steps, key=lambda step: (step.commits.get("action_request", 0), step.trace.trace_id))
    return {step.step_id: step for step in begun}


def content(expected: Mapping[str, RecordedStep], got: Mapping[str, RecordedStep]) -> tuple[ContentDifference, ...]:
    found = (content_difference(expected[step_id], got[step_id]) for step_id in expected if step_id in got)
    return tuple(difference for difference in found if difference is not None)


def nobody(proposal: Proposal) -> bool:
    """No function is asked in a replay: what it said stands in the record."""
    raise AssertionError(f"step {proposal.step_id}: a supervisor was asked in a replay")
