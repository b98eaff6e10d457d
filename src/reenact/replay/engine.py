"""The three modes. They differ in where an effect comes from; everything else is the runtime itself."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.contracts.records import RunStatus
from reenact.replay.breakers import find_breakers
from reenact.replay.compare import Comparison, Difference, compare
from reenact.replay.content import ContentDifference, content_difference
from reenact.replay.instant import InstantDoor
from reenact.replay.nearest import Wanted, nearest_call, wanted_by
from reenact.replay.recorded_source import NothingRecorded, RecordedSource
from reenact.replay.recording import Recording
from reenact.replay.result import Divergence, Nearest, ReplayResult, StepReport
from reenact.replay.stand_in import SERVED_PARTS, ReplayPlan
from reenact.replay.timeline import behaviour_of
from reenact.runtime.execution import Parked
from reenact.runtime.gates.supervisor import Proposal
from reenact.runtime.plan_run import run_plan
from reenact.runtime.reader import RecordedStep, RunReader
from reenact.runtime.runtime import Runtime
from reenact.skills.registry import Registry
from reenact.store.base import Store
from reenact.store.sqlite import SqliteStore
from reenact.values.canonical import canonicalize
from reenact.values.clock import Door, SystemDoor


async def mock_replay(
    recording: Recording,
    registry: Registry,
    *,
    document: dict[str, object] | None = None,
    door: Door | None = None,
) -> ReplayResult:
    """Run the recorded plan again over its recorded attempts, in memory: nothing is called, slept for or written.

    `document` puts another pinned plan in the place of the recorded one, to see what would have followed.
    """
    candidate = recording.document if document is None else document
    plan = ReplayPlan(recording, candidate, registry, serve=True)
    source = RecordedSource(recording, plan.plan.context.supervisor)
    runtime = Runtime(
        SqliteStore(":memory:"), skills=registry, supervisor=nobody, door=InstantDoor(door or SystemDoor())
    )
    ex = runtime.open_run(
        candidate,
        source,
        mode="mock_replay",
        parent_run=recording.run_id,
        original_run_id=recording.seed_run_id,
        bound=plan,
    )
    stop: NothingRecorded | None = None
    status: RunStatus = "running"
    reason: str | None = None
    try:
        status = await run_plan(ex)
    except NothingRecorded as nothing:
        stop, reason = nothing, f"step {nothing.step.step_id} asked for {nothing.asked}"
        await ex.writer.flush()
    except Parked as parked:
        status, reason = parked.status, str(parked)
    steps = recorded_steps(runtime.store, ex.run_id)
    comparison = compare(
        (behaviour_of(step) for step in recording.steps.values()), (behaviour_of(step) for step in steps.values())
    )
    return ReplayResult(
        run_id=ex.run_id,
        status=status,
        store=runtime.store,
        reason=reason,
        mode="mock_replay",
        original_run_id=recording.run_id,
        verdict="failed" if status in ("held", "waiting") else ("matched" if comparison.matches else "differed"),
        comparison=comparison,
        divergence=explain(recording, steps, comparison, stop),
        content=content(recording.steps, steps),
        how=tuple(served_step(plan, step_id) for step_id in recording.steps),
        breakers=tuple(
            breaker
            for breaker in find_breakers(recording.document, candidate, registry)
            if breaker.kind != "skill_missing"  # a skill that is only served is not missed
        ),
    )


def nobody(proposal: Proposal) -> bool:
    """No function is asked in a replay: what it said stands in the record."""
    raise AssertionError(f"step {proposal.step_id}: a supervisor was asked in a replay")


def recorded_steps(store: Store, run_id: str) -> dict[str, RecordedStep]:
    return {step.step_id: step for step in RunReader(store, run_id).steps()}


def served_step(plan: ReplayPlan, step_id: str) -> StepReport:
    without_code = plan.is_stand_in(step_id) if step_id in plan.index else False
    return StepReport(step_id=step_id, how="served", served_without_code=SERVED_PARTS if without_code else ())


def content(expected: Mapping[str, RecordedStep], got: Mapping[str, RecordedStep]) -> tuple[ContentDifference, ...]:
    found = (content_difference(expected[step_id], got[step_id]) for step_id in expected if step_id in got)
    return tuple(difference for difference in found if difference is not None)


def explain(
    recording: Recording, steps: Mapping[str, RecordedStep], comparison: Comparison, stop: NothingRecorded | None
) -> Divergence | None:
    """The first divergence in words, with the recorded call that comes nearest."""
    first = comparison.first
    if first is None:
        return None
    asked = stop if stop is not None and stop.step.step_id == first.step_id else None
    nearest = None
    if asked is not None:
        step = asked.step
        nearest = nearest_call(recording, Wanted(step.step_id, step.skill_id, step.skill_version, asked.parameters))
    elif first.step_id in steps:
        nearest = nearest_call(recording, wanted_by(steps[first.step_id]))
    return Divergence(
        difference=first,
        asked=None if asked is None else asked.asked,
        nearest=nearest,
        explanation=in_words(first, asked, nearest),
    )


def in_words(first: Difference, asked: NothingRecorded | None, nearest: Nearest | None) -> str:
    said = f"step {first.step_id}, {first.when}: {first.aspect} was {shown(first.expected)}, is {shown(first.got)}"
    if asked is not None:
        said += f"; the replay asked for {asked.asked}"
    if nearest is not None:
        said += f"; the nearest recorded call is {nearest.step_id} ({nearest.skill}"
        said += ")" if nearest.attempt is None else f", attempt {nearest.attempt}, {nearest.code})"
        if nearest.differs_in:
            said += f", which differs in {', '.join(nearest.differs_in)}"
    return said


def shown(value: object) -> str:
    return value if isinstance(value, str) else canonicalize(value).decode()
