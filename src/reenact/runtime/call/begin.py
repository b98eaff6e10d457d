"""Where a call begins: a fresh step, or one that a crash, a wait or a caller left open."""

from __future__ import annotations

from reenact.contracts.records import Event
from reenact.contracts.references import (
    EncryptedReference,
    UnresolvedReference,
    has_references,
    resolve,
)
from reenact.journal.fold import TraceFold
from reenact.policy.redaction import holds_mark
from reenact.runtime.call import artifacts
from reenact.runtime.call.call import Call
from reenact.runtime.call.capability import permits_dispatch, read_approval
from reenact.runtime.parked import Parked
from reenact.runtime.plans.accepted import changed
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Run
from reenact.runtime.writing.payloads import ENCRYPTED
from reenact.store.location import to_type


def begin(run: Run, step: PlannedStep) -> Call:
    """A fresh step: its parameters resolved, its request staged."""
    book = run.journal.book
    call = Call(run, step, step.parameters, run.source.is_live(step), gate=run.gates.duplicates)
    content, call.plain = book.content_of(call.parameters, step.redact_hints)
    if content.find(ENCRYPTED) >= 0:  # a session left this plan: opened here, encrypted again where it is written
        opened = book.redactor.decrypt(call.parameters, passed_on=True)
        assert isinstance(opened, dict)
        call.parameters = opened
    if not run.plan.literal and (not call.plain or content.find(b"{{") >= 0) and has_references(call.parameters):
        resolve_references(call)
        content, call.plain = book.content_of(call.parameters, step.redact_hints)
    if not call.plain:
        hold_encrypted(call, call.parameters)
    if call.plain:
        call.content = content
    kept, call.tool_class = book.put_content(content)[0], step.tool_class(call.parameters)
    call.trace = run.journal.entry(artifacts.request(call, kept))
    return call


def resolve_references(call: Call) -> None:
    """`{{step.path}}` becomes what that step returned; where it leads nowhere, the gates are told why."""
    run, step = call.run, call.step
    earlier = {name: number for name, number in run.plan.index.items() if number < step.index}
    try:
        resolved = resolve(call.parameters, earlier, run.outputs.of)
        assert isinstance(resolved, dict)
        call.parameters = resolved
    except UnresolvedReference as error:
        if isinstance(error, EncryptedReference):
            hold_encrypted(call, error.value)
        served = run.source.served_parameters(step)
        if served is None:
            call.unresolved = str(error)
        else:
            call.parameters = served


def hold_encrypted(call: Call, value: object) -> None:
    """Nothing is sent with a value that no key here opens."""
    shut = call.run.journal.book.redactor.why_shut(value) if call.is_live else None
    if shut is not None:
        raise Parked("held", f"step {call.step.step_id} needs a value that is encrypted: {shut} to go on") from None


def reopen(run: Run, trace: TraceFold, step: PlannedStep, *, near: int | None = None) -> Call:
    """A step that was left open: its parameters are what was recorded, not what is computed again."""
    assert trace.request is not None
    commitment, live = str(trace.request.proposal.args["$commit"]), run.source.is_live(step)
    try:
        parameters = run.journal.book.get(commitment, near=near)
    except LookupError:
        raise Parked("held", f"step {step.step_id}: its arguments are gone; nothing can be dispatched") from None
    assert isinstance(parameters, dict)
    approved = trace.decision
    if approved is not None and not permits_dispatch(str(approved.minted_capability)):
        raise Parked("held", f"step {step.step_id}: its approval is for its key's answer alone; nothing is dispatched")
    server, tool = step.server, step.tool
    approval = None if approved is None or not live else read_approval(run, trace, server, tool)
    # What the host of a session said is recorded as it is: there the mark is its own word.
    if live and trace.state != "PENDING" and not run.plan.is_session and holds_mark(parameters):
        raise Parked("held", f"step {step.step_id}: a secret was taken out of its arguments; nothing can be dispatched")
    # An envelope that holds the parameters as planned says that a reference in them led nowhere.
    as_planned = parameters == step.parameters and has_references(step.parameters) and not run.plan.literal
    unresolved = "its reference could not be resolved" if as_planned else None
    call = Call(run, step, parameters, live, step.tool_class(parameters), unresolved=unresolved)
    call.trace, call.approved = trace, approval
    duplicates = run.gates.duplicates
    if duplicates is not None and duplicates.turn == step.turn:
        call.gate = duplicates
    return call


# -- skills that a run began with --------------------------------------------------------------------------------------


def hold_without_skill(run: Run, step: PlannedStep, pinned: object) -> None:
    """A run that goes on where a skill is absent that it began with is not failed for that: somebody brings it.

    `pinned` is the definition that was recorded; without one the skill was never there, and the gate refuses it.
    """
    if step.skill is None and pinned is not None and run.source.is_live(step):
        other = changed(step.skill_id, step.skill_version or "", run.plan.registry)
        if other is not None:
            raise began_otherwise(run, step, str(pinned), other.digest)
        raise Parked(
            "held",
            f"step {step.step_id} needs the skill {step.reference}, which the run began with and which is not "
            "registered here; name its file with --skills, or give it to Runtime(skills=[…])",
        )
    hold_changed_skill(run, step, pinned)


def hold_changed_skill(run: Run, step: PlannedStep, pinned: object) -> None:
    """What a skill declares decides what is sent again, so a run goes on with the declarations that it began with.

    Unless somebody accepts the changed one: then the journal says so. A replay is made to run changed code: it tells
    what differed.
    """
    skill, record = step.skill, run.journal.fold.record
    if skill is None or not isinstance(pinned, str) or skill.is_defined_as(pinned) or not run.source.is_live(step):
        return
    if record is None or record.mode != "live":
        return
    if not run.plan.accepted.covers(step.skill_id, step.reference):
        raise began_otherwise(run, step, pinned, skill.digest)
    note_accepted(run, step, pinned, skill.digest)


def began_otherwise(run: Run, step: PlannedStep, pinned: str, found: str) -> Parked:
    url, record = run.store.url, run.journal.fold.record
    resume = to_type(url, "resume", run.run_id, "--accept-changed", step.skill_id)
    program = f", in its program by session(accept_changed=[{step.skill_id!r}])"
    accept = f"`{resume}`{program if record is not None and record.kind == 'session' else ''}"
    cancel = to_type(url, "cancel", run.run_id, "--reason", "…")
    return Parked(
        "held",
        f"step {step.step_id} began with another declaration of the skill {step.reference}: {pinned[:12]} then, "
        f"{found[:12]} here. Bring that one back and give the changed one a version of its own, go on with the "
        f"changed one by {accept}, or end the run with `{cancel}`",
    )


def note_accepted(run: Run, step: PlannedStep, pinned: str, found: str) -> None:
    """Once for each skill: with which definition the run goes on, and who said so."""
    accepted = run.plan.accepted
    if step.reference in accepted.noted:
        return
    accepted.noted.add(step.reference)
    data = run.journal.book.put_as_it_is({"found": found, "pinned": pinned, "skill": step.reference})[0]
    ts = run.clock.timestamp()
    run.journal.event(Event(data=data, reason=None, trace_id=None, ts=ts, type="accept_changed", who=accepted.who))


def mark_parked(run: Run, trace: TraceFold) -> None:
    """A checkpoint for a call that was sent and is left open. One in PENDING says that a person was asked."""
    if trace.state == "EXECUTING":
        run.journal.checkpoint(trace)
