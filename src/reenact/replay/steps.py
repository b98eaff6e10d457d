"""What the modes share: where content differs, and who is asked: nobody."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.record.reader import RecordedStep
from reenact.replay.compare.content import ContentDifference, content_difference
from reenact.runtime.gates.supervisor import Proposal


def content(expected: Mapping[str, RecordedStep], got: Mapping[str, RecordedStep]) -> tuple[ContentDifference, ...]:
    found = (content_difference(expected[step_id], got[step_id]) for step_id in expected if step_id in got)
    return tuple(difference for difference in found if difference is not None)


def nobody(proposal: Proposal) -> bool:
    """No function is asked in a replay: what it said stands in the record."""
    raise AssertionError(f"step {proposal.step_id}: a supervisor was asked in a replay")
