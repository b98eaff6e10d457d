"""When the journal cannot be written: effects fail closed. Reads may go on where the host said so, and say so."""

from __future__ import annotations

import logging

from reenact.contracts.outcome import Observability, OutcomeMetadata, StructuredOutcome
from reenact.errors import StoreError
from reenact.journal.fold import TraceFold
from reenact.policy.classify import classify
from reenact.policy.taxonomy import is_retryable
from reenact.runtime.execution import Execution
from reenact.runtime.source import AttemptCall
from reenact.runtime.steps import PlannedStep

log = logging.getLogger("reenact.journal")


async def call_unrecorded(ex: Execution, trace: TraceFold, step: PlannedStep, error: StoreError) -> StructuredOutcome:
    """One attempt of a read that leaves no record; raises `error` for anything else, and where no gate let it pass."""
    decided = trace.decision is not None and trace.decision.decision == "APPROVE"
    is_read = step.skill is not None and step.tool_class(step.parameters) == "read"
    if not (ex.unrecorded_reads and decided and is_read):
        raise error
    log.warning("run %s, step %s goes on without a record: %s", ex.run_id, step.step_id, error)
    trace_id = ex.door.uuid7()
    result = await ex.source.attempt(
        AttemptCall(
            run_id=ex.run_id,
            original_run_id=ex.original_run_id,
            trace_id=trace_id,
            step=step,
            parameters=step.parameters,
            attempt=0,
            idempotency_key=trace_id,
            context=ex.plan.context,
        )
    )
    code = classify(result.facts)
    good = code.startswith("OK")
    details: dict[str, object] = {"unrecorded": True, "journal_error": str(error)}
    if good:
        details["output"] = result.output
    return StructuredOutcome(
        code=step.success_code if good else code,
        cost_cents=0,
        details=details,
        latency_ms=result.latency_ms,
        message="the call went on without a record" if good else (result.message or code),
        metadata=OutcomeMetadata(skill_id=step.skill_id, skill_version=str(step.skill_version)),
        observability=Observability(backend_retries=0, span_id=None, trace_id=trace_id),
        retryable=is_retryable(code),
        run_id=ex.run_id,
        side_effects=[],
        status="success" if good else "failure",
        step_id=step.step_id,
        timestamp=ex.door.timestamp(),
    )
