"""Reopening a session: its lease taken, its state, pins, secrets and duplicate gate as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from reenact.contracts.references import secret_names
from reenact.errors import EvidenceError
from reenact.journal.run_fold import RunFold
from reenact.record.payloads import StoredPayloads
from reenact.record.reader import why_gone
from reenact.record.state import refuse_ended
from reenact.runtime.engine import Engine
from reenact.runtime.lending import live_source, redactor_of
from reenact.runtime.listeners import Notice
from reenact.runtime.opening import Interrupted, reopen
from reenact.runtime.run import Run
from reenact.runtime.session.answering.answers import Answers, Ended
from reenact.runtime.session.history import remembered_gate, session_plan
from reenact.runtime.session.plan import Document, SessionPlan
from reenact.runtime.writing.checkpoint_state import Past, encoded, read_past, read_whole
from reenact.store.base import RunRow, Store


def reopen_session(engine: Engine, run_id: str) -> Run:
    """A session's state with its lease taken; its opening was kept with its first turn."""
    return reopen_with_past(engine, run_id, read_past)[0]


def reopen_with_past(engine: Engine, run_id: str, read_state: Callable[[Store, str], Past]) -> tuple[Run, Past]:
    """The run, and as much of its past as `read_state` reads."""
    read: list[Past] = []

    def read_session(_: Engine, run_id: str) -> Interrupted:
        plan = SessionPlan(session_document(engine.store, run_id), engine.registry.freeze())
        past = read_state(engine.store, run_id)
        read.append(past)
        refuse_ended(past.recovered.fold)
        pin_again(plan, past, StoredPayloads(engine.store, run_id))
        engine.secrets.learn(plan.secret_names)
        return Interrupted(past.recovered.fold, plan, live_source(engine, plan), str(past.recovered))

    run = reopen(engine, run_id, read_session)
    with released_on_error(engine, run):
        run.gates.duplicates = remembered_gate(run, run.journal.fold.turn, read[0])
    keep_beside(run)
    run.listeners.tell_now(Notice(kind="recovered", run_id=run_id, message=run.read_from))
    return run, read[0]


def reopen_to_answer(engine: Engine, run_id: str) -> tuple[Run, Answers]:
    """A session with an id that was left open, and all of its record."""
    run, past = reopen_with_past(engine, run_id, partial(read_whole, ahead=True))
    answers = Answers(run.journal.book.redactor)
    with released_on_error(engine, run):
        keep_parents(engine.store, run_id, answers)
        answers.keep(past.recovered.fold, past.steps, StoredPayloads(engine.store, run_id))
    return run, answers


@contextmanager
def released_on_error(engine: Engine, run: Run) -> Iterator[None]:
    """A lease that nobody works under is given back at once."""
    try:
        yield
    except BaseException:
        if run.journal.lease is not None:
            engine.store.release(run.journal.lease)
        raise


def keep_parents(store: Store, run_id: str, answers: Answers) -> None:
    """What a session that continues another has carried over, the oldest first."""
    own = session_document(store, run_id).get("session")
    continues = own.get("continues") if isinstance(own, dict) else None
    if isinstance(continues, dict):
        parent = str(continues["run_id"])
        store.authenticate(parent)
        keep_parents(store, parent, answers)
        past = read_whole(store, parent, ahead=True)
        answers.keep(past.recovered.fold, past.steps, StoredPayloads(store, parent))
        answers.carry_over(continues)


def only_answered(
    engine: Engine, row: RunRow, *, store: Store | None = None, in_test: bool = False
) -> tuple[Ended, Answers]:
    """A session that has ended, and its record; nothing is held, and nothing written."""
    store = store or engine.store
    plan = SessionPlan(session_document(store, row.run_id), engine.registry.freeze())
    past = read_whole(store, row.run_id, ahead=True)
    pin_again(plan, past, StoredPayloads(store, row.run_id))
    engine.secrets.learn(plan.secret_names)
    redactor, fold = redactor_of(engine, plan, store), past.recovered.fold
    answers = Answers(redactor, in_test=in_test, has_ended=True)
    keep_parents(store, row.run_id, answers)
    answers.keep(fold, past.steps, StoredPayloads(store, row.run_id))
    return Ended(row.run_id, row.status, plan, redactor, fold.spent_exact), answers


def pin_again(plan: SessionPlan, past: Past, payloads: StoredPayloads) -> None:
    """What the session had pinned, and the names of its secrets: as they were kept, and as its calls since then say."""
    if past.kept is not None:
        plan.pins = past.kept.pins or plan.pins
        plan.secret_names.update(past.kept.secrets)
    for commit, commitment in past.recovered.fold.pinned:
        with suppress(LookupError):  # erased: then as the skills say that are here
            plan.pin_recorded(payloads.get(commitment, near=commit))
    for step in past.steps:
        skill = plan.find(str(step.trace.meta("skill_id")), str(step.trace.meta("skill_version")))
        parameters = step.parameters()
        plan.pin(skill, parameters if isinstance(parameters, dict) else {})
        plan.secret_names.update(secret_names(parameters))


def keep_beside(run: Run) -> None:
    """With each run checkpoint, what whoever goes on from there needs to know."""
    plan = session_plan(run)

    def kept() -> tuple[str, bytes]:
        gate = run.gates.duplicates
        assert gate is not None
        return gate.digest(), encoded(gate, pins=plan.pins, secrets=frozenset(plan.secret_names))

    run.journal.kept_beside = kept


def session_document(store: Store, run_id: str) -> Document:
    first = store.body(run_id, 1)
    if first is None:
        raise EvidenceError(f"session {run_id} has no commits")
    head = RunFold(run_id)
    head.apply_body(first)
    data = next((event.data for event in head.events if event.type == "turn"), None)
    if data is None:
        raise EvidenceError(f"session {run_id} was not begun by this runtime; only whoever began it goes on with it")
    try:
        document = StoredPayloads(store, run_id).get(data, near=1)
    except LookupError:
        raise EvidenceError(f"what session {run_id} began with {why_gone(store, run_id, data)}") from None
    assert isinstance(document, dict)
    return document
