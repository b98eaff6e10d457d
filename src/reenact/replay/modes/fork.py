"""Fork: the recording up to a step, then on with one thing changed, as a new run with its parent."""

from __future__ import annotations

from reenact.contracts.records import UNFINISHED, RunStatus
from reenact.errors import DeterminismBroken, UsageError
from reenact.record.recording import Recording
from reenact.replay.breakers import find_breakers
from reenact.replay.compare.against import Against, hold_against
from reenact.replay.modes.changes import Changes, refuse_earlier_effect
from reenact.replay.modes.full import with_new_salt
from reenact.replay.modes.notes import DIRECTIVE, note, tell_compared, trace_record
from reenact.replay.modes.trust import admitted
from reenact.replay.result import GoOn, How, ReplayResult, ReplayVerdict, StepReport
from reenact.replay.sources.mixed import ForkSource
from reenact.replay.sources.recorded import NothingRecorded, RecordedSource
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.runtime.conduct import conduct
from reenact.runtime.engine import Engine
from reenact.runtime.lending import live_source
from reenact.runtime.opening import begin
from reenact.runtime.parked import Parked
from reenact.runtime.plans.plan_run import BeforeSeal, run_plan, seal
from reenact.runtime.run import Run


async def fork(
    engine: Engine,
    recording: Recording,
    at: str,
    *,
    changes: Changes | None = None,
    go_on: GoOn = "mock",
    allow_breakers: bool = False,
    trust_plan: bool = False,
) -> ReplayResult:
    """A new run that has the recorded steps before `at` and goes on from there, live or with recorded effects.

    Mocked, a call that the recorded run did not make ends the fork: nobody knows what it would have returned. A change
    that takes effect before `at` is refused, with the step to fork at instead. Live, a plan that came in a folder is
    refused (`UntrustedPlan`) unless `trust_plan`, and the host's policy holds for it either way.
    """
    changed = changes or Changes(recording.document)
    document = with_new_salt(changed.document, engine.clock.random_bytes(32).hex())
    plan = ReplayPlan(recording, document, engine.registry.freeze())
    refuse_unknown_step(recording, plan, at)
    if go_on == "live":
        live = set(plan.index).difference(before(plan, at))
        document = admitted(engine, recording, document, live, trusted=trust_plan)
        plan = ReplayPlan(recording, document, plan.registry)
    await refuse_earlier_effect(recording, engine.registry, changed, before(plan, at), at)
    if go_on == "live":
        plan.refuse_erased(set(plan.index).difference(before(plan, at)))
        refuse_breakers(recording, plan, at, allow=allow_breakers)
    plan.serve_only(set(before(plan, at)) if go_on == "live" else None)
    source = fork_source(engine, recording, plan, at, changed.outputs, go_on)
    run = begin(engine, plan, source, mode="fork", parent_run=recording.run_id, original_run_id=recording.run_id)
    note(
        run,
        {
            "schema": DIRECTIVE,
            "mode": "fork",
            "original_run_id": recording.run_id,
            "at": at,
            "go_on": go_on,
            "outputs": dict(changed.outputs),
        },
    )
    return await resumed(engine, run, recording, plan, at, go_on)


async def resumed(engine: Engine, run: Run, recording: Recording, plan: ReplayPlan, at: str, how: GoOn) -> ReplayResult:
    """From wherever the fork stands to its end; a mocked one that asks for what nobody recorded ends there."""

    async def before_seal(status: RunStatus) -> None:
        await run.journal.flush()
        note(run, trace_record(run.run_id, compared(engine, run.run_id, status, recording, plan, at, how, None)))

    if how == "live":
        done = await conduct(engine, run, before_seal)
        return tell_compared(
            engine.listeners,
            compared(engine, run.run_id, done.status, recording, plan, at, how, None, reason=done.reason),
        )
    stop: NothingRecorded | None = None
    async with engine.held(run) as hold:
        try:
            hold.leave(await run_plan(run, before_seal))
        except NothingRecorded as nothing:
            stop = nothing
            hold.leave("cancelled", f"step {nothing.step.step_id} asked for {nothing.asked}")
            await end_early(run, str(hold.reason), before_seal)
        except Parked as parked:
            hold.leave(parked.status, str(parked))
    assert hold.status is not None
    return tell_compared(
        engine.listeners,
        compared(engine, run.run_id, hold.status, recording, plan, at, how, stop, reason=hold.reason),
    )


async def end_early(run: Run, reason: str, before_seal: BeforeSeal) -> None:
    """Nothing is recorded from here on: the fork is cancelled, with the reason, and sealed."""
    await run.journal.flush()
    run.note_cancel(reason, "reenact fork")
    await before_seal("cancelled")
    await seal(run, "cancelled")


def fork_source(
    engine: Engine, recording: Recording, plan: ReplayPlan, at: str, outputs: dict[str, object], go_on: GoOn
) -> ForkSource:
    supervisor = plan.plan.context.supervisor
    served = frozenset(before(plan, at))
    return ForkSource(
        before=RecordedSource(recording, recording.plan.context.supervisor, outputs=outputs),
        after=live_source(engine, plan)
        if go_on == "live"
        else RecordedSource(recording, supervisor, strict=True, outputs=outputs),
        is_before=served.__contains__,
    )


def before(plan: ReplayPlan, at: str) -> list[str]:
    return [step.step_id for step in plan.plan.steps[: plan.index[at]]]


def refuse_unknown_step(recording: Recording, plan: ReplayPlan, at: str) -> None:
    if at not in plan.index:
        raise UsageError(f"--at {at}: run {recording.run_id} has no such step; it has {', '.join(plan.index)}")
    missing = [step_id for step_id in before(plan, at) if step_id not in recording.steps]
    if missing:
        raise UsageError(f"--at {at}: the recorded run ended before step {missing[0]}; fork at {missing[0]} or earlier")


def refuse_breakers(recording: Recording, plan: ReplayPlan, at: str, *, allow: bool) -> None:
    """What the live steps need: their skills as pinned, and the taxonomy."""
    served = set(before(plan, at))
    needed = {f"{step.skill_id}@{step.skill_version}" for step in plan.plan.steps if step.step_id not in served}
    found = [
        breaker
        for breaker in find_breakers(recording.document, recording.document, plan.registry)
        if breaker.where in needed or not breaker.kind.startswith("skill_")
    ]
    if found and not allow:
        raise DeterminismBroken(found[0].message, [breaker.message for breaker in found])


def compared(
    engine: Engine,
    run_id: str,
    status: RunStatus,
    recording: Recording,
    plan: ReplayPlan,
    at: str,
    go_on: GoOn,
    stop: NothingRecorded | None,
    *,
    reason: str | None = None,
) -> ReplayResult:
    held = hold_against(recording, engine.store, run_id, served=go_on == "mock", stop=stop)
    served = set(before(plan, at))

    def how(step_id: str) -> How:
        if step_id not in held.steps:
            return "not reached"
        return "served" if step_id in served or go_on == "mock" else "live"

    return ReplayResult(
        run_id=run_id,
        status=status,
        store=engine.store,
        reason=reason,
        mode="fork",
        original_run_id=recording.run_id,
        verdict=verdict_of(status, held),
        comparison=held.comparison,
        divergence=held.divergence,
        content=held.content,
        how=tuple(StepReport(step_id=step.step_id, how=how(step.step_id)) for step in plan.plan.steps),
    )


def verdict_of(status: RunStatus, held: Against) -> ReplayVerdict:
    """Something was changed on purpose, so that nobody asks who differed."""
    if status in UNFINISHED:
        return "failed"
    return "differed" if held.verdict == "world_differed" else held.verdict
