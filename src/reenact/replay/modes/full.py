"""full_replay: the recorded plan once more, live, as a new run that is linked to the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reenact.contracts.records import UNFINISHED, RunStatus
from reenact.errors import DeterminismBroken
from reenact.record.recording import Recording
from reenact.replay.breakers import Breaker, find_breakers
from reenact.replay.compare.against import Against, hold_against
from reenact.replay.compare.behaviour import ASPECTS, Aspect
from reenact.replay.modes.actions import Action, choose_actions, declared
from reenact.replay.modes.notes import DIRECTIVE, note, tell_compared, trace_record
from reenact.replay.modes.trust import admitted
from reenact.replay.result import How, ReplayResult, ReplayVerdict, StepReport
from reenact.replay.sources.mixed import FullReplaySource
from reenact.replay.sources.recorded import RecordedSource
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.runtime.conduct import conduct
from reenact.runtime.engine import Engine
from reenact.runtime.lending import live_source
from reenact.runtime.opening import begin
from reenact.runtime.plans.steps import RunPlan
from reenact.runtime.run import Run
from reenact.store.base import Store

HOW: dict[Action, How] = {"execute": "live", "skip": "skipped", "check": "checked"}
STILL_COMPARED: frozenset[Aspect] = frozenset({"step_ids", "skill_id", "skill_version", "status", "retryable"})
"""Of a step that was checked: what reading back cost and touched says nothing of the step."""


async def full_replay(
    engine: Engine,
    recording: Recording,
    *,
    execute: Iterable[str] = (),
    skip: Iterable[str] = (),
    check: Iterable[str] = (),
    retry_failed: bool = False,
    allow_breakers: bool = False,
    trust_plan: bool = False,
) -> ReplayResult:
    """Run the recorded plan live. Writes are skipped unless their step is named in `execute`.

    With `retry_failed` what succeeded is skipped, and what failed or was never reached is executed, writes too.
    The new run has keys of its own and is charged apart; its jitter is seeded by the original. What breaks determinism
    is refused before anything runs (`DeterminismBroken`) unless `allow_breakers`; and so is a plan that came in a
    folder (`UntrustedPlan`) unless `trust_plan`. The host's policy holds for it either way.
    """
    document = with_new_salt(recording.document, engine.clock.random_bytes(32).hex())
    bound = ReplayPlan(recording, document, engine.registry.freeze())
    actions = choose_actions(recording, bound, execute=execute, skip=skip, check=check, retry_failed=retry_failed)
    live = {step_id for step_id, action in actions.items() if action != "skip"}
    document = admitted(engine, recording, document, live, trusted=trust_plan)
    bound = ReplayPlan(recording, document, bound.registry)
    bound.serve_only(not_executed(actions))
    bound.refuse_erased(live)
    breakers = full_breakers(recording, bound, actions)
    if breakers and not allow_breakers:
        raise DeterminismBroken(breakers[0].message, [breaker.message for breaker in breakers])
    source = full_source(engine, recording, bound, actions)
    run = begin(
        engine, bound, source, mode="full_replay", parent_run=recording.run_id, original_run_id=recording.run_id
    )
    told: dict[str, object] = {
        "schema": DIRECTIVE, "mode": "full_replay", "original_run_id": recording.run_id, "actions": dict(actions)
    }  # fmt: skip
    note(run, told | ({"retry_failed": True} if retry_failed else {}))
    return await resumed(engine, run, recording, actions, breakers, retried=retry_failed)


async def resumed(
    engine: Engine,
    run: Run,
    recording: Recording,
    actions: dict[str, Action],
    breakers: list[Breaker],
    *,
    retried: bool = False,
) -> ReplayResult:
    """From wherever the replay stands to its end, where it writes down how it compared."""

    def result(status: RunStatus, reason: str | None = None) -> ReplayResult:
        found = compared(engine.store, run.run_id, status, recording, actions, run.plan, reason=reason)
        return replace(found, breakers=tuple(breakers), retried=retried)

    async def before_seal(status: RunStatus) -> None:
        await run.journal.flush()
        note(run, trace_record(run.run_id, result(status)))

    done = await conduct(engine, run, before_seal)
    return tell_compared(engine.listeners, result(done.status, done.reason))


def full_source(engine: Engine, recording: Recording, bound: RunPlan, actions: dict[str, Action]) -> FullReplaySource:
    return FullReplaySource(
        live=live_source(engine, bound),
        recorded=RecordedSource(recording, recording.plan.context.supervisor),
        actions=actions,
        clock=engine.clock,
    )


def compared(
    store: Store,
    run_id: str,
    status: RunStatus,
    recording: Recording,
    actions: dict[str, Action],
    plan: RunPlan,
    *,
    reason: str | None = None,
) -> ReplayResult:
    """A live replay held against its original, as far as it has come."""
    left_out = {step_id: frozenset(ASPECTS) - STILL_COMPARED for step_id in actions if actions[step_id] == "check"}
    held = hold_against(recording, store, run_id, served=False, skip=left_out, declared=declared(plan, actions))
    return ReplayResult(
        run_id=run_id,
        status=status,
        store=store,
        reason=reason,
        mode="full_replay",
        original_run_id=recording.run_id,
        verdict=verdict_of(status, recording, actions, held),
        comparison=held.comparison,
        divergence=held.divergence,
        content=held.content,
        how=tuple(
            StepReport(step_id=step_id, how=HOW[action] if step_id in held.steps else "not reached")
            for step_id, action in actions.items()
        ),
    )


def verdict_of(status: RunStatus, recording: Recording, actions: dict[str, Action], held: Against) -> ReplayVerdict:
    """A replay that stopped half-way failed; one that was served everything compared nothing with the world."""
    if status in UNFINISHED or (status == "cancelled" and recording.status != "cancelled"):
        return "failed"
    asked_the_world = any(actions.get(step_id) != "skip" for step_id in held.steps)
    return held.verdict if asked_the_world or not held.comparison.matches else "not_compared"


def not_executed(actions: dict[str, Action]) -> set[str]:
    """Steps that need no code: the record tells all that is decided about them."""
    return {step_id for step_id, action in actions.items() if action == "skip"}


def full_breakers(recording: Recording, bound: RunPlan, actions: dict[str, Action]) -> list[Breaker]:
    """What stands in the way of the steps that will be executed or checked; a skipped step needs no skill."""
    needed = {
        f"{step.skill_id}@{step.skill_version}" for step in bound.plan.steps if actions[step.step_id] != "skip"
    }  # fmt: skip
    found = find_breakers(recording.document, recording.document, bound.registry)
    return [breaker for breaker in found if breaker.where in needed or not breaker.kind.startswith("skill_")]


def with_new_salt(document: dict[str, object], salt: str) -> dict[str, object]:
    """The same plan with another salt, so that every key in it is a new one."""
    context = document.get("context")
    assert isinstance(context, dict)
    pins = context["pins"]
    assert isinstance(pins, dict)
    return {**document, "context": {**context, "pins": {**pins, "salt": salt}}}
