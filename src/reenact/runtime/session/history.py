"""A session's past: as messages that a model API accepts, and its open calls brought to an end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from reenact.contracts.model_mistakes import said_name, without_marks
from reenact.contracts.records import Event, RunStatus
from reenact.contracts.references import unescape
from reenact.errors import UsageError
from reenact.journal.fold import TraceFold
from reenact.record.reader import RecordedStep, RunReader
from reenact.runtime.call import artifacts as building
from reenact.runtime.call import authorize as keys
from reenact.runtime.call import call as drive
from reenact.runtime.call import doubt
from reenact.runtime.call.dispatch import make_dispatch
from reenact.runtime.effects.source import AttemptResult
from reenact.runtime.gates.duplicate import DuplicateGate, is_idempotent
from reenact.runtime.gates.verdict import Refusal
from reenact.runtime.run import Execution, Parked
from reenact.runtime.session.plan import Document, SessionPlan
from reenact.runtime.writing import checkpoint_state as kept_state
from reenact.runtime.writing.checkpoint_state import Past
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex

INTERRUPTED = "This call was interrupted; whether it took effect is not known."
NOT_IN_A_NAME = re.compile("[^a-zA-Z0-9_-]")
LONGEST_NAME = 64
WAITING = "This call waits for a person to approve it; nothing was sent."


def reopen(ex: Execution, plan: SessionPlan, trace: TraceFold) -> drive.Call:
    """A call that an earlier process left open, with the parameters that it recorded."""
    row = ex.store.trace(trace.trace_id, run_id=ex.run_id)
    near = None if row is None else row.commit_n
    assert trace.request is not None
    parameters = ex.book.get(str(trace.request.proposal.args["$commit"]), near=near)
    assert isinstance(parameters, dict)
    key = trace.meta("key")
    caller_key = str(ex.book.get(str(key), near=near)) if key is not None else None
    step = plan.from_trace(trace, parameters, caller_key)
    call = drive.resume(ex, trace, step, near=near)
    if call.gate is None and ex.duplicates is not None and trace.state == "PENDING" and is_idempotent(step):
        # A call of an earlier turn that nobody has decided yet.
        call.gate = remembered_gate(ex, plan, step.turn, kept_state.read_whole(ex.store, ex.run_id))
    return call


def remembered_gate(ex: Execution, plan: SessionPlan, turn: int, past: Past) -> DuplicateGate:
    """What the duplicate gate knew of a turn when the session was interrupted."""
    return kept_state.remembered_gate(
        ex, turn, past, lambda recorded, parameters: plan.from_trace(recorded.trace, parameters, None)
    )


def may_wait(ex: Execution, trace: TraceFold) -> bool:
    """Whether a person was asked about this call and has not answered. Any other that is PENDING was given up on."""
    return trace.state == "PENDING" and trace.trace_id in ex.fold.parked and trace.trace_id not in ex.fold.votes


async def synthesize(ex: Execution, plan: SessionPlan, trace: TraceFold) -> None:
    """End an interrupted call with a result that says so, appended: the history is whole again, nothing is sent.

    What can be known of a call in doubt is asked first. Parked where its skill leaves that to a person.
    """
    call = reopen(ex, plan, trace)
    if may_wait(ex, trace):
        return  # nothing was sent, and a person may still approve it
    if trace.state == "PENDING":
        gone = Refusal("supervisor", "ERR_CANCELLED", "interrupted before it was decided")
        ex.writer.entry(building.decision(ex, trace, call.step, call.parameters, gone))
        await ex.writer.flush()
        return
    if trace.state == "AUTHORIZED":
        key = building.idempotency_key(ex, trace, call.step)
        ex.writer.entry(building.tool_call(ex, trace, call.step, call.parameters, key))
        keys.refuse(ex, trace, call.step, "ERR_CANCELLED", "interrupted before it was sent")
        await ex.writer.flush()
        return
    if doubt.released_by_person(ex, trace):
        try:
            drive.hold_without_skill(ex, call.step, trace.meta("definition_digest"))
        except Parked:
            await call.park()
            raise
        await call.drive()
    else:
        await end_in_doubt(ex, call)
    await ex.writer.flush()


async def end_in_doubt(ex: Execution, call: drive.Call) -> None:
    """With what is known of it; else with the words that nobody knows."""
    trace, step = call.trace, call.step
    dispatch = make_dispatch(ex, trace, step, call.parameters)
    try:
        drive.hold_changed_skill(ex, step, trace.meta("definition_digest"))
        known = await doubt.known_result(dispatch, trace.made, wait=False)
    except Parked:
        await call.park()
        raise
    if isinstance(known, AttemptResult):
        outcome = dispatch.end_with(known)
    else:
        ts = ex.door.timestamp()
        ex.writer.event(Event(data=None, reason=None, trace_id=trace.trace_id, ts=ts, type="synthesized", who=None))
        outcome = doubt.end_undispatched(
            ex,
            trace,
            step,
            code="ERR_IN_DOUBT" if known is None else "ERR_CANCELLED",
            message=INTERRUPTED if known is None else "interrupted; its read-back says that it did not happen",
            details={"synthesized": True},
            status="ERROR" if known is None else "FAILURE",
        )
    keys.finish(ex, trace, step, outcome)
    call.remember(outcome)


def seal(ex: Execution, plan: SessionPlan, status: RunStatus, *, reason: str | None = None) -> None:
    """Stage the end of a session: the calls that were made as its plan, and the seal over it."""
    document, digest = plan.assemble(RunReader(ex.store, ex.run_id).steps())
    data, ts = ex.book.put_as_it_is(document)[0], ex.door.timestamp()
    ex.writer.event(Event(data=data, reason=reason, trace_id=None, ts=ts, type="finish", who=None))
    ex.writer.seal(status, digest, ex.fold.requested)


def messages(steps: Iterable[RecordedStep], style: str, opened: Callable[[object], object]) -> list[Document]:
    """Every call is followed by its result, in request order: what a model API insists on.

    `opened` gives a recorded value as its caller saw it.
    """
    if style not in ("openai", "anthropic"):
        raise UsageError(f"style {style!r} is neither openai nor anthropic")
    pair = openai_pair if style == "openai" else anthropic_pair
    found: list[Document] = []
    for step in sorted(steps, key=lambda item: item.trace.step_index):
        found += pair(step.trace.trace_id, *described(step, opened))
    return found


def tool_name(name: str) -> str:
    """As model APIs take it, `[a-zA-Z0-9_-]{1,64}`: a dot is written `__`, what else is not among those `_`.

    A longer one is cut to 55, followed by `-` and the first 8 hex digits of the SHA-256 of the whole name.
    """
    found = NOT_IN_A_NAME.sub("_", name.replace(".", "__")) or "_"
    return found if len(found) <= LONGEST_NAME else f"{found[:55]}-{sha256_hex(name.encode())[:8]}"


def described(step: RecordedStep, opened: Callable[[object], object]) -> tuple[str, Document, str, bool]:
    """(tool, arguments, content, whether it failed) of one call."""
    recorded = opened(step.parameters())
    recorded = recorded if isinstance(recorded, dict) else {}
    tool = tool_name(said_name(recorded) or str(step.trace.meta("skill_id")))
    arguments = unescape(without_marks(recorded), None)
    assert isinstance(arguments, dict)
    if not step.finished:
        return tool, arguments, WAITING if step.trace.state == "PENDING" else INTERRUPTED, True
    outcome = step.outcome()
    if outcome.ok or (outcome.details is not None and "output" in outcome.details):
        content = canonicalize(opened(outcome.output)).decode()
    else:
        # A gate's reason, `/count: is required`, is what a model needs to do better the next time.
        reason = (outcome.details or {}).get("reason") if step.trace.state == "DENIED" else None
        content = f"{outcome.code}: {reason or outcome.message}"
    return tool, arguments, content, not outcome.ok


def openai_pair(call_id: str, tool: str, arguments: Document, content: str, failed: bool) -> list[Document]:  # noqa: ARG001, FBT001  # this API has no flag for failure
    function = {"name": tool, "arguments": canonicalize(arguments).decode()}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": content},
    ]


def anthropic_pair(call_id: str, tool: str, arguments: Document, content: str, failed: bool) -> list[Document]:  # noqa: FBT001  # same shape as above
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": tool, "input": arguments}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": failed}],
        },
    ]
