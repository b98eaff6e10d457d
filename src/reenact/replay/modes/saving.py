"""Keeping the report of a mock replay: a run of its own in the store, without steps and without anybody's values."""

from __future__ import annotations

from reenact.contracts.plan import Plan, plan_from_document
from reenact.record.recording import Recording
from reenact.replay.compare.render import comparison_document
from reenact.replay.modes.notes import TRACE, note, notes_of, trace_record
from reenact.replay.modes.throw_away import nobody
from reenact.replay.result import ReplayResult
from reenact.replay.sources.recorded import RecordedSource
from reenact.runtime.engine import Engine
from reenact.runtime.opening import begin
from reenact.runtime.plans.plan_run import run_plan
from reenact.runtime.plans.steps import RunPlan
from reenact.skills.registry import Registry
from reenact.store.base import Store


async def save_report(store: Store, recording: Recording, result: ReplayResult) -> str:
    """Write the comparison as a sealed run of mode mock_replay, linked to the original; its id.

    The replay itself was made in memory and is not kept: a copy of its values would outlive their erasure.
    """
    engine = Engine(store, skills=Registry(), supervisor=nobody)
    document = empty_plan(recording.plan, recording.document)
    bound = RunPlan(plan_from_document(document)[0], document, Registry())
    run = begin(engine, bound, RecordedSource(recording, "auto"), mode="mock_replay", parent_run=recording.run_id)
    async with engine.held(run) as hold:
        note(run, {**trace_record(run.run_id, result), "report": comparison_document(result)})
        hold.leave(await run_plan(run))
    return run.run_id


def empty_plan(plan: Plan, document: dict[str, object]) -> dict[str, object]:
    """The original's plan with nothing in it to run."""
    context = document["context"]
    assert isinstance(context, dict)
    return {"plan_id": plan.plan_id, "agent_id": plan.agent_id, "steps": [], "context": {"pins": context["pins"]}}


def saved_traces(store: Store, run_id: str) -> list[dict[str, object]]:
    """The replay trace records that a replay run holds."""
    return [document for document in notes_of(store, run_id) if document.get("schema") == TRACE]
