"""mock_replay: the recorded plan once more over its recorded attempts, in memory."""

from __future__ import annotations

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import RunStatus
from reenact.errors import EvidenceError
from reenact.record.recording import Recording
from reenact.record.told import loss_outcome, next_requests, told_loss
from reenact.replay.breakers import Breaker, find_breakers
from reenact.replay.compare.against import hold_against
from reenact.replay.modes.scheduler import Scheduler, moments_of
from reenact.replay.modes.throw_away import throw_away_engine
from reenact.replay.result import ReplayResult, StepReport
from reenact.replay.sources.recorded import NothingRecorded, RecordedSource
from reenact.replay.sources.stand_in import SERVED_PARTS, ReplayPlan
from reenact.runtime.opening import begin
from reenact.runtime.parked import Parked
from reenact.runtime.plans.plan_run import run_plan
from reenact.runtime.run import Run
from reenact.runtime.session.plan import carried_exact
from reenact.runtime.session.reopening import session_document
from reenact.skills.registry import Registry
from reenact.values.clock import Clock


async def mock_replay(
    recording: Recording,
    registry: Registry,
    *,
    document: dict[str, object] | None = None,
    clock: Clock | None = None,
) -> ReplayResult:
    """Run the recorded plan again over its recorded attempts: nothing is called, slept for or written.

    `document` puts another pinned plan in the place of the recorded one, to see what would have followed.
    """
    candidate = recording.document if document is None else document
    breakers = tuple(mock_breakers(recording, candidate, registry))
    plan = ReplayPlan(recording, candidate, registry)
    engine = throw_away_engine(registry, clock, recording.store)
    source = RecordedSource(recording, plan.plan.context.supervisor)
    run = begin(
        engine, plan, source, mode="mock_replay", parent_run=recording.run_id, original_run_id=recording.seed_run_id
    )
    if recording.record.kind == "session":
        plan.carried_exact = carried_by(recording)
        status, reason, stop = await session_to_the_end(run, recording, plan, source)
    else:
        status, reason, stop = await to_the_end(run)
    if recording.status == "cancelled" and status in ("completed", "running"):
        status = "cancelled"  # the one who cancelled the recorded run is served: nothing goes on behind it
    still_open = [step.step_id for step in recording.steps.values() if step.trace.state == "EXECUTING"]
    if still_open and stop is None:
        status, reason = "held", f"what came of {', '.join(still_open)} is not recorded: its run was cancelled over it"
    held = hold_against(recording, engine.store, run.run_id, served=True, stop=stop)
    return ReplayResult(
        run_id=run.run_id,
        status=status,
        store=engine.store,
        reason=reason if still_open or held.comparison.first is not None else None,
        mode="mock_replay",
        original_run_id=recording.run_id,
        verdict=held.verdict,
        comparison=held.comparison,
        divergence=held.divergence,
        content=held.content,
        how=tuple(served_step(plan, step_id) for step_id in recording.steps),
        told=told_losses(recording),
        breakers=breakers,
    )


def carried_by(recording: Recording) -> int:
    """What a session had spent already when it began; nothing is known of that where its opening was erased."""
    try:
        return carried_exact(session_document(recording.store, recording.run_id))
    except EvidenceError:
        return 0


async def to_the_end(run: Run) -> tuple[RunStatus, str | None, NothingRecorded | None]:
    """(status, why it stopped, what was asked for and not recorded)."""
    try:
        return await run_plan(run), None, None
    except NothingRecorded as nothing:
        await run.journal.flush()
        return "running", f"step {nothing.step.step_id} asked for {nothing.asked}", nothing
    except Parked as parked:
        return parked.status, str(parked), None


async def session_to_the_end(
    run: Run, recording: Recording, plan: ReplayPlan, source: RecordedSource
) -> tuple[RunStatus, str | None, NothingRecorded | None]:
    try:
        stop = await Scheduler(run, plan, source).drive(moments_of(recording))
    except Parked as parked:
        return parked.status, str(parked), None
    if stop is not None:
        return "running", f"step {stop.step.step_id} asked for {stop.asked}", stop
    return "completed", None, None


def told_losses(recording: Recording) -> dict[str, StructuredOutcome]:
    """What callers were told of answers that were lost, where they went on before there was another."""
    following = next_requests(recording.steps.values())
    losses = {step_id: told_loss(step, following.get(step.trace.trace_id)) for step_id, step in recording.steps.items()}
    return {
        step_id: loss_outcome(recording.steps[step_id], loss) for step_id, loss in losses.items() if loss is not None
    }


def served_step(plan: ReplayPlan, step_id: str) -> StepReport:
    without_code = plan.is_stand_in(step_id) if step_id in plan.index else False
    return StepReport(step_id=step_id, how="served", served_without_code=SERVED_PARTS if without_code else ())


def mock_breakers(recording: Recording, candidate: dict[str, object], registry: Registry) -> list[Breaker]:
    """A skill that is only served is not missed."""
    found = find_breakers(recording.document, candidate, registry)
    return [breaker for breaker in found if breaker.kind != "skill_missing"]
