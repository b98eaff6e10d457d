"""Start and resume runs: each from where it stands to its end, or to where it has to stop."""

from __future__ import annotations

from reenact.contracts.plan import Plan
from reenact.contracts.records import UNFINISHED, RunStatus
from reenact.errors import Draining, RunEnded, SecretError, WaitingForPerson
from reenact.journal.run_fold import RunFold
from reenact.record.result import RunResult
from reenact.record.state import refuse_unsealed
from reenact.runtime.effects.source import EffectSource
from reenact.runtime.engine import Engine
from reenact.runtime.lending import live_source
from reenact.runtime.listeners import Notice
from reenact.runtime.opening import begin, reopen
from reenact.runtime.parked import Parked
from reenact.runtime.plans.accepted import NOTHING_ACCEPTED, Accepted
from reenact.runtime.plans.pinning import PinnedPlan
from reenact.runtime.plans.plan_run import BeforeSeal, leave_parked, run_plan
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.run import Run
from reenact.runtime.session.reopening import reopen_session
from reenact.runtime.session.session import Session
from reenact.store.base import RunRow

SETTLED = "the session's calls are settled"


class LiveMode:
    """A plan that runs on the world."""

    def bind(
        self, engine: Engine, fold: RunFold, plan: Plan, document: dict[str, object]
    ) -> tuple[RunPlan, EffectSource]:
        assert fold.record is None or fold.record.mode == "live"
        bound = RunPlan(plan, document, engine.registry.freeze())
        return bound, live_source(engine, bound)

    async def go_on(self, engine: Engine, run: Run) -> RunResult:
        return await conduct(engine, run)


async def start(engine: Engine, pinned: PinnedPlan, *, run_id: str | None = None) -> RunResult:
    """A new run of a plan, to its end or to where it has to stop."""
    bound = RunPlan(*pinned, engine.registry.freeze())
    return await conduct(engine, begin(engine, bound, live_source(engine, bound), run_id=run_id))


async def conduct(engine: Engine, run: Run, before_seal: BeforeSeal | None = None) -> RunResult:
    """Run a plan to the end or to a stop; the lease is given back either way."""
    async with engine.held(run) as hold:
        try:
            if run.read_from is not None:
                told = Notice(kind="recovered", run_id=run.run_id, message=run.read_from, steps=len(run.plan))
                run.listeners.tell_now(told)
            async with engine.drain_state.limit(run.run_id):
                hold.leave(await run_plan(run, before_seal))
        except (Parked, SecretError) as stopped:
            await leave_parked(run)
            hold.leave(stopped.status if isinstance(stopped, Parked) else "held", str(stopped))
        except Draining as stopped:
            await run.journal.flush()
            hold.leave(None, str(stopped))
    if hold.status is None:  # interrupted: as it is, for whoever goes on with it
        hold.leave(engine.store.find_run(run.run_id).status, hold.reason)
    assert hold.status is not None
    return RunResult(run.run_id, hold.status, engine.store, reason=hold.reason)


async def resume(engine: Engine, run_id: str, accepted: Accepted = NOTHING_ACCEPTED) -> RunResult:
    """Go on with a run that was interrupted; a run that has ended is returned as it is."""
    row = engine.store.find_run(run_id)
    if row.status not in UNFINISHED:
        refuse_unsealed(engine.store, row)
        return RunResult(row.run_id, row.status, engine.store)
    if row.kind == "trace":
        return RunResult(
            row.run_id, row.status, engine.store, reason="the runtime that wrote this trace goes on with it"
        )
    try:
        if row.kind == "session":
            return await settle_session(engine, row, accepted)
        run = reopen(engine, row.run_id)
        run.plan.accepted = accepted
        return await engine.mode(run.journal.fold).go_on(engine, run)
    except RunEnded:  # another executor was faster
        return RunResult(row.run_id, engine.store.find_run(row.run_id).status, engine.store)


async def settle_session(engine: Engine, row: RunRow, accepted: Accepted) -> RunResult:
    """Drive the open calls of a session to their end. The session itself goes on only with its host."""
    run_id, run = row.run_id, reopen_session(engine, row.run_id)
    run.plan.accepted = accepted
    status: RunStatus = "pending"
    reason = f"{SETTLED}; {row.how_to_go_on}"
    async with engine.held(run) as hold:
        hold.leave(status)
        if run.forbidden is not None:
            hold.leave("held", run.forbidden)
            return RunResult(run_id, "held", engine.store, reason=run.forbidden)
        try:
            async with engine.drain_state.limit(run_id):
                await Session(engine, run).settle()
        except WaitingForPerson as waiting:
            status, reason = ("waiting" if waiting.status == "waiting" else "held"), str(waiting)
        except Draining as stopped:
            status, reason = row.status, str(stopped)
        hold.leave(status, reason)
    return RunResult(run_id, status, engine.store, reason=reason)
