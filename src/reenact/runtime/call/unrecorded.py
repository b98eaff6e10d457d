"""When the journal cannot be written: effects fail closed. Reads may go on where the host said so, and say so.

What such a read decides, costs and brings is staged as always, and written before anything else once that works again.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import StoreError
from reenact.journal.fold import TraceFold
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Execution, Fact

log = logging.getLogger("reenact.journal")


def may_go_on(ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object]) -> bool:
    """A read that every gate let pass. One with a caller's key may not: its key has to be reserved first."""
    return (
        ex.unrecorded_reads
        and trace.decision is not None
        and trace.decision.decision == "APPROVE"
        and step.caller_key is None
        and step.tool_class(parameters) == "read"
        and ex.source.is_live(step)
    )


def go_on(ex: Execution, trace: TraceFold, step: PlannedStep, parameters: dict[str, object], error: StoreError) -> None:
    """Where the call may go on, say so; raises `error` for anything else."""
    if not may_go_on(ex, trace, step, parameters):
        raise error
    if step.step_id in ex.without_record:
        return
    ex.without_record[step.step_id] = str(error)
    log.warning("run %s, step %s goes on without a record: %s", ex.run_id, step.step_id, error)
    if ex.listeners:
        ex.tell_now(
            Fact(
                kind="unrecorded", run_id=ex.run_id, step_id=step.step_id, step_index=step.index, message=str(error),
                skill_id=step.skill_id,
            )
        )  # fmt: skip


def remark(ex: Execution, step: PlannedStep) -> dict[str, object]:
    """What an outcome says of a call that was made without a record: nothing where there was one."""
    error = ex.without_record.get(step.step_id)
    return {} if error is None else {"unrecorded": True, "journal_error": error}


def marked(ex: Execution, step: PlannedStep, outcome: StructuredOutcome) -> StructuredOutcome:
    """The outcome as it is handed over; where it is not durable by then, it says so."""
    said = remark(ex, step) if ex.without_record else None
    return replace(outcome, details={**(outcome.details or {}), **said}) if said else outcome
