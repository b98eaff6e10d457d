"""How a session begins: new, found by its id with its record, or gone on with by a host that does not start over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from reenact.contracts.records import ENDED, Event
from reenact.errors import EvidenceError, RunEnded, RunNotFound, UsageError
from reenact.record.recording import verify_recording
from reenact.record.state import refuse_unsealed
from reenact.runtime.engine import Engine
from reenact.runtime.lending import live_source
from reenact.runtime.opening import begin
from reenact.runtime.plans.plan_secrets import refuse_secrets_in_session
from reenact.runtime.plans.tool_registries import check_registries, with_host_registries
from reenact.runtime.run import Run
from reenact.runtime.session.answering.answers import Answers, Ended
from reenact.runtime.session.answering.in_test import ToolsToday
from reenact.runtime.session.plan import Document, SessionPlan, opening
from reenact.runtime.session.reopening import (
    keep_beside,
    only_answered,
    reopen_session,
    reopen_to_answer,
    session_document,
)
from reenact.runtime.writing.checkpoint_state import fresh_gate
from reenact.runtime.writing.redaction import Redactor
from reenact.store.base import Store
from reenact.store.owner import until_known
from reenact.values.canonical import canonicalize

NOBODY: Final = "agent"
"""The agent of a session that names none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a host says of the session that it wants."""

    id: str | None = None
    goal: str = ""
    agent_id: str = NOBODY
    context: Document = field(default_factory=dict)
    resume: str | None = None
    replay: str | Path | None = None
    execute: Collection[str] = ()


async def until_free(engine: Engine, wanted: Wanted) -> None:
    """Where a session goes on whose holder cannot be seen from here: wait until it is known whether it works."""
    store = engine.store
    if wanted.replay is not None:
        return
    row = store.find_run(wanted.resume) if wanted.resume else None
    if wanted.id is not None and not wanted.resume:
        row = store.find_session(wanted.agent_id, wanted.id)
    if row is not None:
        async with engine.drain_state.limit():
            await until_known(store, engine.clock, row.run_id)


def begin_session(engine: Engine, wanted: Wanted) -> tuple[Run | Ended, Answers | None]:
    """The run of a session, and its record where it has an id."""
    if wanted.replay is not None:
        return replayed(engine, wanted, wanted.replay)
    if wanted.resume:
        return resumed(engine, wanted, wanted.resume)
    if wanted.id is None:
        return opened(engine, wanted), None
    row = engine.store.open_session(wanted.agent_id, wanted.id)
    if row is None:
        run = opened(engine, wanted)
        return run, Answers(run.journal.book.redactor)
    refuse_another(engine, wanted, row.run_id)
    if row.status in ENDED:
        refuse_unsealed(engine.store, row)
        return only_answered(engine, row)
    try:
        return reopen_to_answer(engine, row.run_id)
    except RunEnded:  # by somebody who was faster, since it was looked up
        return only_answered(engine, engine.store.find_run(row.run_id))


def opened(engine: Engine, wanted: Wanted) -> Run:
    """A new session, its opening staged."""
    run_id, redactor = engine.clock.uuid7(), Redactor(engine.secrets)
    refuse_secrets_in_session(wanted.agent_id, wanted.context, engine.secrets)
    if wanted.id is not None and redactor.redact_text(wanted.id) != wanted.id:
        raise UsageError("the id of a session looks like a secret, and ids are written as they are")
    document = opening(
        run_id,
        goal=redactor.redact_text(wanted.goal),
        agent_id=wanted.agent_id,
        context=with_host_registries(
            engine.policy.admit_session(wanted.agent_id, wanted.context), engine.tool_registries
        ),
        clock=engine.clock,
        policy=engine.policy.digest,
        session=None if wanted.id is None else {"id": wanted.id},
    )
    return begun_with(engine, document)


def begun_with(engine: Engine, document: Document, *, parent: Run | None = None) -> Run:
    """A new run of a session with this opening, which is staged; `parent` is the run that it continues."""
    plan, own = SessionPlan(document, engine.registry.freeze()), document.get("session")
    check_registries(plan.plan.context.tool_registries, source="session")
    run = begin(
        engine,
        plan,
        live_source(engine, plan),
        kind="session",
        run_id=str(document["plan_id"]),
        parent_run=None if parent is None else parent.run_id,
        key_run=None if parent is None else parent.key_run,
        session=str(own["id"]) if isinstance(own, dict) else None,
    )
    record = run.journal.fold.record
    assert record is not None
    data = run.journal.book.put_as_it_is(document)[0]
    run.journal.event(Event(data=data, reason=None, trace_id=None, ts=record.started_at, type="turn", who=None))
    run.gates.duplicates = fresh_gate(run)
    keep_beside(run)
    return run


def resumed(engine: Engine, wanted: Wanted, resume: str) -> tuple[Run, Answers | None]:
    """One that its host goes on with: what was recorded is not asked for again."""
    row = engine.store.find_run(resume)
    if row.kind != "session":
        raise UsageError(f"run {row.run_id} is a plan; `reenact resume {row.run_id}` goes on with it")
    if row.status in ENDED:
        raise UsageError(f"session {row.run_id} has ended ({row.status})")
    refuse_another(engine, wanted, row.run_id)
    if row.session is None:
        return reopen_session(engine, row.run_id), None
    run, answers = reopen_to_answer(engine, row.run_id)
    answers.go_on_after()
    return run, answers


def replayed(engine: Engine, wanted: Wanted, run: str | Path) -> tuple[Ended, Answers]:
    """A recorded session, of this store or in an exported folder or its zip, verified before it answers anything."""
    from reenact.record.bundle import is_bundle, load_bundle

    recording = load_bundle(Path(run)) if isinstance(run, Path) or is_bundle(run) else None
    store = engine.store if recording is None else recording.store
    row = store.find_run(str(run) if recording is None else recording.run_id)
    if row.kind != "session":
        raise UsageError(f"run {row.run_id} is a plan; replay it with `reenact replay`, or the fixture `recorded`")
    if store is engine.store:
        verify_recording(store, row)
    refuse_another(engine, wanted, row.run_id, store)
    try:
        ended, answers = only_answered(engine, row, store=store, in_test=True)
    except RunNotFound as missing:
        raise EvidenceError(
            f"run {row.run_id} continues one that it needs and that is not here ({missing}); export it again, of the "
            "store that it was made in"
        ) from None
    tools = ToolsToday(ended.plan, live_source(engine, ended.plan), ended.redactor, wanted.execute)
    return replace(ended, check=tools.check), answers


def refuse_another(engine: Engine, wanted: Wanted, run_id: str, store: Store | None = None) -> None:
    """A session goes on with what it began with: what is said otherwise would not hold, so it is refused."""
    if not wanted.goal and wanted.agent_id == NOBODY and not wanted.context:
        return
    began = session_document(store or engine.store, run_id)
    context = began.get("context")
    assert isinstance(context, dict)
    asked: Document = {f"context.{name}": value for name, value in wanted.context.items()}
    had: Document = {f"context.{name}": context.get(name) for name in wanted.context}
    own, kept = wanted.context.get("tool_registries"), context.get("tool_registries")
    if isinstance(own, list) and isinstance(kept, list):  # the runtime's stand behind those that were said
        added = [each for each in engine.tool_registries if each not in own]
        had["context.tool_registries"] = [each for each in kept if each not in added]
    if wanted.goal:
        asked["goal"], had["goal"] = Redactor(engine.secrets).redact_text(wanted.goal), began.get("goal")
    if wanted.agent_id != NOBODY:
        asked["agent_id"], had["agent_id"] = wanted.agent_id, began.get("agent_id")
    narrowed = engine.policy.admit_session(wanted.agent_id, wanted.context)  # as it was written when it began
    asked_so = {**asked, **{f"context.{name}": narrowed[name] for name in wanted.context}}
    for name, value in asked.items():
        if canonicalize(had[name]) not in (canonicalize(value), canonicalize(asked_so[name])):
            raise UsageError(
                f"session {wanted.id or run_id} began with another {name}, and goes on with that; leave it out, "
                "or begin a new session"
            )
