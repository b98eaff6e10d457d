"""Start, resume and recover runs: each from where it stands to its end, or to where it has to stop."""

from __future__ import annotations

from collections.abc import Callable

from reenact.contracts.plan import Plan
from reenact.contracts.records import UNFINISHED, RunStatus
from reenact.errors import LockAcquireFailed, ReenactError, RunEnded, SecretError, StoreError, WaitingForPerson
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

LAPSED_S = 0.1
"""After the end of a lease: clocks are not as fine as the records."""


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
            hold.leave(await run_plan(run, before_seal))
        except (Parked, SecretError) as stopped:
            await leave_parked(run)
            hold.leave(stopped.status if isinstance(stopped, Parked) else "held", str(stopped))
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
    reason = f"the session's calls are settled; {row.how_to_go_on}"
    async with engine.held(run) as hold:
        hold.leave(status)
        if run.forbidden is not None:
            hold.leave("held", run.forbidden)
            return RunResult(run_id, "held", engine.store, reason=run.forbidden)
        try:
            await Session(engine, run).settle()
        except WaitingForPerson as waiting:
            status, reason = ("waiting" if waiting.status == "waiting" else "held"), str(waiting)
        hold.leave(status, reason)
    return RunResult(run_id, status, engine.store, reason=reason)


async def recover(engine: Engine, on_wait: Callable[[float], None] | None = None) -> list[RunResult]:
    """Go on with every run that nobody is working on, the oldest first; one that cannot go on has an `error`.

    `on_wait` is told how many seconds it takes until leases of other hosts or containers have lapsed.
    """
    rows = engine.store.runs(status=UNFINISHED)
    found, free_in_s = await recover_rows(engine, rows)
    if free_in_s:  # a container that was started again cannot see that the one before it is gone
        if on_wait is not None:
            on_wait(max(free_in_s.values()))
        await engine.clock.sleep(max(free_in_s.values()) + LAPSED_S)
        again, _ = await recover_rows(engine, [row for row in rows if row.run_id in free_in_s])
        found |= again
    return list(found.values())


async def recover_rows(engine: Engine, rows: list[RunRow]) -> tuple[dict[str, RunResult], dict[str, float]]:
    """(results, the oldest first; the seconds after which those that nobody can see at work here may be free)."""
    found: dict[str, RunResult] = {}
    free_in_s: dict[str, float] = {}
    for row in reversed(rows):
        try:
            found[row.run_id] = await resume(engine, row.run_id)
        except StoreError:
            raise
        except ReenactError as error:  # one that is damaged or in other hands does not keep the others from it
            found[row.run_id] = RunResult(row.run_id, row.status, engine.store, reason=str(error), error=error)
            if isinstance(error, LockAcquireFailed) and error.free_in_s is not None:
                free_in_s[row.run_id] = error.free_in_s
    return found, free_in_s
