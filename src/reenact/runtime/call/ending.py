"""How calls end: the one place that stages an end, and the ends that no attempt makes.

`stage` is what all ends after the tool_call come to: the effect, the caller's key, the output for later steps.
A call that a gate refuses ends with its decision: `deny`.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from reenact.contracts.artifacts import EffectStatus, Meta
from reenact.contracts.outcome import Observability, StructuredOutcome
from reenact.contracts.references import escape_encrypted_marks
from reenact.errors import UsageError
from reenact.record.outcomes import build_outcome, denied_outcome_of, span_id_of, with_output
from reenact.runtime.call import artifacts
from reenact.runtime.call.call import Call
from reenact.runtime.effects.source import PersonSaid
from reenact.runtime.gates.answer import Answered, Refusal
from reenact.runtime.listeners import hear_later
from reenact.runtime.run import Run
from reenact.skills.context import utility_text
from reenact.store.base import KeyCompletion, KeyState
from reenact.values.canonical import as_recorded

log = logging.getLogger("reenact.runs")

NO_MORE: Meta = {}
Kept = tuple[str, int]
"""(commitment, size) of a payload."""
NOTHING = object()
"""A call that failed returned nothing, which is not None."""
GIVEN_UP = "ERR_CANCELLED"
"""Of a call that did not happen and is not made any more, as a person says: nobody is in doubt about that."""


def deny(call: Call, refusal: Refusal) -> StructuredOutcome:
    """PENDING → DENIED: the decision is the end."""
    utility = None
    if call.run.scorer is not None or not call.is_live:
        utility = scored(call, artifacts.refused_outcome(call, refusal), None)
    call.run.journal.entry(artifacts.decision(call, refusal, utility))
    call.run.outputs.remember(call.step.step_id, None)
    return denied_outcome_of(call.trace, {"message": refusal.message, **refusal.details})


def end(
    call: Call,
    status: EffectStatus,
    code: str,
    message: str,
    *,
    details: dict[str, object] | None = None,
    latency_ms: int = 0,
    output: Kept | None = None,
    returned: object = NOTHING,
    holds_key: bool = True,
    utility: str | None = None,
    used_up: bool = False,
) -> StructuredOutcome:
    """EXECUTING → COMPLETED or FAILED. Staged, not yet durable; what is given back holds the output too."""
    good, kept = status == "SUCCESS", output or call.run.journal.book.put(None)
    now = call.run.clock.timestamp()
    outcome = build_outcome(
        call.trace, "success" if good else "failure", code, message, now, details=details, latency_ms=latency_ms
    )
    handed_over = outcome if returned is NOTHING else with_output(outcome, returned)
    if call.run.scorer is not None or not call.is_live:
        utility = scored(call, handed_over, utility)
    more: Meta = {"step_utility": utility} if utility is not None else NO_MORE
    if used_up:
        more = {**more, "retries_used_up": True}
    stage(call, outcome, status, kept, holds_key=holds_key, more=more)
    return handed_over


def scored(call: Call, outcome: StructuredOutcome, said: str | None) -> str | None:
    """What a call was worth: as recorded where it is served, else in its skill's word, else in the scorer's."""
    run = call.run
    if not call.is_live:
        return run.source.served_utility(call.step)
    if said is not None or run.scorer is None:
        return said
    try:
        value = run.scorer(run.journal.book.redactor.hide_known(outcome))
        return None if value is None else utility_text(value)
    except BaseException as error:  # noqa: BLE001  # the call is done, whatever its host makes of it
        log.warning("step %s of run %s has no score: %s", outcome.step_id, run.run_id, describe(error))
        hear_later(error)
        return None


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if issubclass(type(error), UsageError) else type(error).__name__


def stage(
    call: Call,
    outcome: StructuredOutcome,
    status: EffectStatus,
    output: Kept,
    *,
    served_from: str | None = None,
    holds_key: bool = True,
    more: Meta = NO_MORE,
) -> None:
    """The effect of a call, whatever made it; `holds_key` unless the caller's key is another call's."""
    run = call.run
    run.journal.entry(artifacts.tool_effect(call, outcome, status, output, served_from, more))
    run.outputs.remember(call.step.step_id, output[0] if status == "SUCCESS" else None)
    run.in_doubt.discard(call.trace.trace_id)
    if call.step.caller_key is not None and holds_key:
        complete_key(call, outcome)


def complete_key(call: Call, outcome: StructuredOutcome) -> None:
    """With the effect: the key is completed, free again when the call failed, or in doubt with it."""
    trace, step = call.trace, call.step
    assert trace.call is not None
    assert trace.effect is not None
    # A person who says that it failed knows: that effect is a FAILURE. A result that cannot be recorded is that of a
    # body that ran to its end: what it did is done, and the key must not do it again.
    unheard = outcome.code in ("ERR_SERIALIZATION_FAILED", "ERR_SCHEMA_MISMATCH") and trace.call.tool_class != "read"
    nobody_knows = trace.effect.outcome.status == "ERROR" and (outcome.code == "ERR_IN_DOUBT" or unheard)
    state: KeyState = "completed" if outcome.ok else "in_doubt" if nobody_knows else "released"
    key = trace.call.idempotency_key
    call.run.journal.complete(KeyCompletion(step.server, step.tool, key, trace.trace_id, state))


# -- ends without an attempt -------------------------------------------------------------------------------------------


def refuse(call: Call, code: str, message: str, *, holds_key: bool = False) -> StructuredOutcome:
    """Refused after AUTHORIZED: FAILED with effect status DENIED, and nothing is dispatched."""
    return end(call, "DENIED", code, message, holds_key=holds_key)


def answer(call: Call, known: Answered) -> StructuredOutcome:
    """PENDING → COMPLETED by its key: decision, call, attempt and effect are staged at once, for one commit."""
    call.run.journal.entry(artifacts.decision(call, known))
    call.run.journal.entry(artifacts.tool_call(call, artifacts.idempotency_key(call)))
    return serve(call, known.outcome, known.output, known.served_from)


def serve(call: Call, earlier: StructuredOutcome, output: object, served_from: str) -> StructuredOutcome:
    """The recorded effect of the key, marked as served from the record; nothing is dispatched."""
    run, trace = call.run, call.trace
    now, kept = run.clock.timestamp(), run.journal.book.put(output, hints=call.step.redact_hints)
    run.journal.attempt(
        artifacts.attempt(call, "served", 0, code=earlier.code, response=kept[0], started_at=now, ended_at=now)
    )
    outcome = replace(
        earlier,
        cost_cents=0,
        latency_ms=0,
        run_id=run.run_id,
        step_id=call.step.step_id,
        side_effects=[],
        observability=Observability(backend_retries=0, span_id=span_id_of(trace.trace_id), trace_id=trace.trace_id),
        details=dict(sorted({**(earlier.details or {}), "served_from": served_from}.items())),
        timestamp=now,
    )
    handed_over = with_output(outcome, output)
    utility = scored(call, handed_over, None)
    more: Meta = NO_MORE if utility is None else {"step_utility": utility}
    stage(call, outcome, "SUCCESS", kept, served_from=served_from, holds_key=False, more=more)
    return handed_over


def end_as_told(call: Call, said: PersonSaid) -> StructuredOutcome:
    """The end that the record tells of, where no attempt made it."""
    message = "as the record tells"
    return end_by_word(call, message, {}, succeeded=said.succeeded, output=said.output, code=said.code)


def end_by_person(call: Call, *, succeeded: bool, output: object) -> StructuredOutcome:
    """The end that a person tells of a call in doubt; nothing was dispatched for it."""
    message = "a person says that it succeeded" if succeeded else "a person says that it failed"
    told: dict[str, object] = {"resolved_by": "person"}
    return end_by_word(call, message, told, succeeded=succeeded, output=output, code=GIVEN_UP)


def end_by_word(
    call: Call,
    message: str,
    details: dict[str, object],
    *,
    succeeded: bool,
    output: object,
    code: str,
) -> StructuredOutcome:
    """Somebody tells how a call ended; `code` where it failed."""
    value = escape_encrypted_marks(as_recorded(output)) if succeeded else None
    return end(
        call,
        "SUCCESS" if succeeded else "FAILURE",
        call.step.success_code if succeeded else code,
        message,
        details=details,
        output=call.run.journal.book.put(value, hints=call.step.redact_hints),
        returned=value if succeeded else NOTHING,
    )


def leave_keys_in_doubt(run: Run) -> None:
    """The run ends over calls that may or may not have happened: so it is with their keys."""
    for trace in run.journal.fold.open.values():
        if trace.state == "EXECUTING" and trace.meta("idempotency_source") == "caller":
            assert trace.request is not None
            assert trace.call is not None
            place = (trace.request.proposal.tool_server, trace.request.proposal.tool_name)
            run.journal.complete(KeyCompletion(*place, trace.call.idempotency_key, trace.trace_id, "in_doubt"))
