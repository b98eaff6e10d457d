"""Where a call begins: a fresh step, or one that a crash, a wait or a caller left open."""

from __future__ import annotations

from reenact.contracts.records import Event
from reenact.contracts.references import (
    EncryptedReference,
    UnresolvedReference,
    has_encrypted,
    has_references,
    resolve,
)
from reenact.journal.fold import TraceFold
from reenact.policy.redaction import holds_mark
from reenact.runtime.call import artifacts
from reenact.runtime.call.call import Call
from reenact.runtime.parked import Parked
from reenact.runtime.plans.accepted import changed
from reenact.runtime.plans.steps import PlannedStep
from reenact.runtime.run import Run
from reenact.runtime.writing.redaction import KEY_VARIABLE


def begin(run: Run, step: PlannedStep) -> Call:
    """A fresh step: its parameters resolved, its request staged."""
    book, opened = run.journal.book, run.journal.book.redactor.decrypt(step.parameters)
    assert isinstance(opened, dict)
    call = Call(run, step, opened, run.source.is_live(step), gate=run.gates.duplicates)
    content, call.plain = book.content_of(call.parameters, step.redact_hints)
    if not run.plan.literal and (not call.plain or b"{{" in content) and has_references(call.parameters):
        resolve_references(call)
        content, call.plain = book.content_of(call.parameters, step.redact_hints)
    if not call.plain and call.is_live and has_encrypted(call.parameters):
        raise still_encrypted(step)
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
        if isinstance(error, EncryptedReference) and call.is_live:
            raise still_encrypted(step) from None
        served = run.source.served_parameters(step)
        if served is None:
            call.unresolved = str(error)
        else:
            call.parameters = served


def still_encrypted(step: PlannedStep) -> Parked:
    return Parked("held", f"step {step.step_id} needs a value that is encrypted: set {KEY_VARIABLE} to go on")


def reopen(run: Run, trace: TraceFold, step: PlannedStep, *, near: int | None = None) -> Call:
    """A step that was left open: its parameters are what was recorded, not what is computed again."""
    assert trace.request is not None
    commitment, live = str(trace.request.proposal.args["$commit"]), run.source.is_live(step)
    try:
        parameters = run.journal.book.get(commitment, near=near)
    except LookupError:
        raise Parked("held", f"step {step.step_id}: its arguments are gone; nothing can be dispatched") from None
    assert isinstance(parameters, dict)
    if live and trace.state != "PENDING" and holds_mark(parameters):
        raise Parked("held", f"step {step.step_id}: a secret was taken out of its arguments; nothing can be dispatched")
    # An envelope that holds the parameters as planned says that a reference in them led nowhere.
    as_planned = parameters == step.parameters and has_references(step.parameters) and not run.plan.literal
    unresolved = "its reference could not be resolved" if as_planned else None
    call = Call(run, step, parameters, live, step.tool_class(parameters), unresolved=unresolved)
    call.trace = trace
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
            "registered here; name its file with --skills",
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
    return Parked(
        "held",
        f"step {step.step_id} began with another declaration of the skill {step.reference}: {pinned[:12]} then, "
        f"{found[:12]} here. Bring that one back and give the changed one a version of its own, go on with the "
        f"changed one by `reenact resume {run.run_id} --accept-changed {step.skill_id}`, or end the run with "
        f"`reenact cancel {run.run_id} --reason …`",
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
