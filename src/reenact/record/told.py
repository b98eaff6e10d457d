"""What the caller of a recorded call was told: its end, or, where the answer was lost, the outcome that says so.

The next request of a call's lane decides: where it was committed before the effect, whoever made it had been told of
the doubt, and a program that is started again, or a replay, gets the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.plan import PLACE
from reenact.contracts.records import Attempt
from reenact.record.outcomes import lost_outcome
from reenact.record.reader import RecordedStep

Position = tuple[int, str]
"""Of an artifact in its run: its commit, and its id, since those of a commit grow as they were made."""


def lane_of(step: RecordedStep) -> str:
    """As its request says, or what stands before the last `:` of its name; nothing for the whole run."""
    lane, named = step.trace.meta("lane"), PLACE.match(step.step_id)
    return lane if isinstance(lane, str) else "" if named is None else named["lane"]


def next_requests(steps: Iterable[RecordedStep]) -> dict[str, Position]:
    """By trace, where the next request of its lane stands; without those that no request followed."""
    found: dict[str, Position] = {}
    before: dict[str, list[str]] = {}
    for step in sorted(steps, key=begun):
        lane, here = lane_of(step), begun(step)
        # Whoever has no lane is followed by any request of the run, a lane also by those that were opened under it.
        for waiting in {lane, *(each for each in before if not each or lane.startswith(f"{each}."))}:
            found.update(dict.fromkeys(before.pop(waiting, ()), here))
        before.setdefault(lane, []).append(step.trace.trace_id)
    return found


def begun(step: RecordedStep) -> Position:
    request = step.trace.request
    return step.commits.get("action_request", 0), "" if request is None else request.action_request_id


def told_loss(step: RecordedStep, next_request: Position | None, *, is_sealed: bool = False) -> Attempt | None:
    """The record that the caller's answer was lost, where that is what the caller was told; None where it got the end.

    `next_request` is where the next request of the call's lane stands, None where there is none. In a run that is
    sealed over an open call nothing else will be known of it.
    """
    losses = [record for record in step.trace.attempts if record.kind == "lost"]
    if losses and next_request is None and is_sealed and not step.finished:
        return losses[-1]
    if not losses or next_request is None:
        return None
    effect = step.trace.effect
    if effect is not None and (step.commits.get("tool_effect", 0), effect.tool_effect_id) < next_request:
        return None
    known = [record for record in losses if step.losses.get(record.ordinal, 0) < next_request[0]]
    return known[-1] if known else losses[0]


def loss_outcome(step: RecordedStep, loss: Attempt) -> StructuredOutcome:
    """What the caller was told with it."""
    return lost_outcome(step.payloads, step.trace, loss, near=step.losses.get(loss.ordinal))
