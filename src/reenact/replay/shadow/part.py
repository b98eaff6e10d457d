"""A run that goes on, read as far as it has come: its plan, as far as that is known, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from reenact.contracts.artifacts import ActionRequest
from reenact.contracts.plan import plan_from_document
from reenact.contracts.records import RunStatus, Seal
from reenact.contracts.whole_plan import whole_plan
from reenact.record.reader import RecordedStep, RunReader, in_order
from reenact.record.recording import Recording
from reenact.runtime.session.plan import SessionPlan
from reenact.runtime.session.reopening import session_document
from reenact.skills.registry import Registry


class PartRecording(Recording):
    """Its steps so far."""

    @property
    def status(self) -> RunStatus:
        return "running"


def part_of(reader: RunReader, steps: dict[str, RecordedStep], registry: Registry) -> PartRecording | None:
    """What is known of the run that `reader` reads; None of a session that has called nothing.

    The steps of a plan are those in `steps`, and grow with them.
    """
    is_session = reader.record().kind == "session"
    document = session_so_far(reader, steps, registry) if is_session else reader.recorded_plan()
    if not isinstance(document, dict):
        return None
    plan, document = plan_from_document(document, source="the plan of a live run")
    nobody = cast("Seal", None)  # it has not ended
    known = in_order(steps.values()) if is_session else steps
    return PartRecording(reader.store, reader.record(), nobody, plan, document, known)


def session_so_far(reader: RunReader, steps: Mapping[str, RecordedStep], registry: Registry) -> dict[str, Any] | None:
    """The plan that a session would be assembled to, if it ended now."""
    if not steps:
        return None
    session = SessionPlan(session_document(reader.store, reader.run_id), registry)
    for commit, commitment in reader.fold.pinned:
        session.pin_recorded(reader.payloads.get(commitment, near=commit))
    document, _ = session.assemble(cast("ActionRequest", step.trace.request) for step in steps.values())
    return whole_plan(document, lambda step_id, named: steps[step_id].value(named, "action_request"))
