"""When the journal cannot be written: effects fail closed. Reads may go on where the host said so, and say so.

What such a read decides, costs and brings is staged as always, and written before anything else once that works again.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from reenact.contracts.outcome import StructuredOutcome
from reenact.errors import StoreError
from reenact.runtime.call.call import Call

log = logging.getLogger("reenact.journal")


def go_on(call: Call, error: StoreError) -> None:
    """Where the call may go on without a record, say so; raises `error` for anything else."""
    if not may_go_on(call):
        raise error
    run, step = call.run, call.step
    if step.step_id in run.unrecorded.why:
        return
    run.unrecorded.why[step.step_id] = str(error)
    log.warning("run %s, step %s goes on without a record: %s", run.run_id, step.step_id, error)
    if run.listeners.any:
        run.listeners.tell_now(call.notice("unrecorded", message=str(error), skill_id=step.skill_id))


def may_go_on(call: Call) -> bool:
    """A read that every gate let pass. One with a caller's key may not: its key has to be reserved first."""
    decided = call.trace.decision
    return (
        call.run.unrecorded.reads_go_on
        and decided is not None
        and decided.decision == "APPROVE"
        and call.step.caller_key is None
        and call.tool_class == "read"
        and call.is_live
    )


def remark(call: Call) -> dict[str, object]:
    """What an outcome says of a call that was made without a record: nothing where there was one."""
    error = call.run.unrecorded.why.get(call.step.step_id)
    return {} if error is None else {"unrecorded": True, "journal_error": error}


def marked(call: Call, outcome: StructuredOutcome) -> StructuredOutcome:
    """The outcome as it is handed over; where it is not durable by then, it says so."""
    said = remark(call)
    return replace(outcome, details={**(outcome.details or {}), **said}) if said else outcome
