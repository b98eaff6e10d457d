"""The one way to open a run: a new one, or one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reenact.contracts.plan import plan_hash
from reenact.contracts.records import RunKind, RunMode, RunRecord
from reenact.errors import EvidenceError, RecoveryFailed, UnknownVersion, UsageError
from reenact.journal.run_fold import RunFold
from reenact.record.reader import RunReader
from reenact.record.state import load_fold, refuse_ended
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.engine import Engine
from reenact.runtime.gates.state import gates_of
from reenact.runtime.lending import forbidden_today, redactor_of
from reenact.runtime.listeners import Listeners, Notice
from reenact.runtime.money import Money
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.run import Run, Unrecorded
from reenact.runtime.writing.payloads import PayloadBook
from reenact.runtime.writing.writer import RunWriter
from reenact.skills.home import refuse_while_importing
from reenact.store.base import NewRun
from reenact.values.ids import is_uuid7, refuse_nul
from reenact.version import __version__


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A run that goes on: its state, verified and folded, and what it goes on with."""

    fold: RunFold
    plan: RunPlan
    source: EffectSource
    read_from: str


def begin(
    engine: Engine,
    plan: RunPlan,
    source: EffectSource,
    *,
    kind: RunKind = "plan",
    run_id: str | None = None,
    mode: RunMode = "live",
    parent_run: str | None = None,
    original_run_id: str | None = None,
    session: str | None = None,
    key_run: str | None = None,
) -> Run:
    """A new run, its run record staged for the first commit. One that continues another has the `key_run` of that."""
    refuse_while_importing()
    engine.drain_state.refuse()
    if run_id is not None and not is_uuid7(run_id):
        raise UsageError(f"run_id {run_id!r} is not a lowercase UUIDv7; leave it out to get a new one")
    clock, is_plan = engine.clock, kind == "plan"
    new_id, dedupe_key = run_id or clock.uuid7(), clock.random_bytes(32)
    book = PayloadBook(engine.store, new_id, clock, dedupe_key, redactor_of(engine, plan))
    journal = RunWriter(engine.committer, RunFold(new_id), book, clock, lease=None, owner=engine.owner)
    started_at = clock.timestamp()
    record = RunRecord(
        agent_id=plan.agent_id,
        capability_key=engine.mint.kid,
        key_run=key_run or new_id,
        kind=kind,
        mode=mode,
        parent_run=parent_run,
        plan=book.put_as_it_is(plan.document)[0] if is_plan else None,
        plan_hash=plan_hash(plan.document) if is_plan else None,
        plan_id=plan.plan_id,
        reenact_version=__version__,
        run_id=new_id,
        started_at=started_at,
        steps_planned=len(plan.plan.steps) if is_plan else None,
    )
    for what, text in (("plan_id", plan.plan.plan_id), ("agent_id", plan.plan.agent_id), ("a session's id", session)):
        refuse_nul(what, text or "")
    new_run = NewRun(
        kind=kind, mode=mode, parent_run=parent_run, plan_id=plan.plan.plan_id, agent_id=plan.plan.agent_id,
        started_at=started_at, dedupe_key=dedupe_key, session=session,
    )  # fmt: skip
    journal.run(record, new_run)
    run = assemble(engine, plan, journal, source, original_run_id or new_id, engine.mint.kid)
    run.listeners.tell(Notice(kind="run_started", run_id=new_id, steps=len(plan.plan.steps) if is_plan else None))
    return run


def reopen(engine: Engine, run_id: str, read: Callable[[Engine, str], Interrupted] | None = None) -> Run:
    """A run that was interrupted: its lease taken, its journal verified and folded, nothing staged.

    `read` brings its state back; of a plan's by default.
    """
    refuse_while_importing()
    engine.drain_state.refuse()
    store, clock = engine.store, engine.clock
    kid = engine.mint_for(run_id, RunReader(store, run_id).record().capability_key).kid  # without it nothing is claimed
    lease = store.acquire(run_id, engine.owner)
    try:
        past = (read or read_plan)(engine, run_id)
        book = PayloadBook(store, run_id, clock, store.dedupe_key(run_id), redactor_of(engine, past.plan))
    except BaseException as error:
        store.release(lease)
        if isinstance(error, EvidenceError) and not isinstance(error, UnknownVersion):
            raise RecoveryFailed(f"run {run_id} cannot go on: {error}") from error
        raise
    journal = RunWriter(engine.committer, past.fold, book, clock, lease=lease, owner=engine.owner)
    record = past.fold.record
    original = record.parent_run if record is not None and record.mode != "live" else None
    run = assemble(engine, past.plan, journal, past.source, original or run_id, kid)
    run.read_from = past.read_from
    run.forbidden = forbidden_today(engine, past.plan)
    return run


def read_plan(engine: Engine, run_id: str) -> Interrupted:
    plan, document = RunReader(engine.store, run_id).plan()
    recovered = load_fold(engine.store, run_id)
    refuse_ended(recovered.fold)
    bound, source = engine.mode(recovered.fold).bind(engine, recovered.fold, plan, document)
    return Interrupted(recovered.fold, bound, source, str(recovered))


def assemble(
    engine: Engine, plan: RunPlan, journal: RunWriter, source: EffectSource, original_run_id: str, kid: str
) -> Run:
    """The parts of a run put together."""
    record = journal.fold.record
    if engine.committer.logs is not None:
        journal.on_commit = partial(engine.committer.logs.committed, journal.fold.run_id)
    return Run(
        store=engine.store,
        clock=engine.clock,
        journal=journal,
        plan=plan,
        source=source,
        money=Money(plan, journal, engine.store, engine.clock),
        gates=gates_of(plan, journal, source, engine.supervisor, engine.supervisor_timeout_s, engine.policy),
        listeners=Listeners(engine.listeners, journal.after_commit, "live" if record is None else record.mode),
        mint=engine.mints[kid],
        original_run_id=original_run_id,
        unrecorded=Unrecorded(engine.unrecorded_reads),
        max_redispatches=engine.max_redispatches,
        drain=engine.drain_state,
        scorer=engine.scorer,
    )
