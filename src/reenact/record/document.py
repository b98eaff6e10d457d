"""A run as a document: every step with its decision, its attempts, what they cost, and the digests that pin them.

`read_document` is what `reenact show` and every other view of a run read; `document_shape` says what stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec

from reenact.contracts.artifacts import Artifact, ArtifactType
from reenact.contracts.records import Attempt
from reenact.errors import ReenactError
from reenact.policy.cost import cents
from reenact.record.bundle import read_bundle, where_values_are
from reenact.record.document_events import event_document, replay_document, vote_documents
from reenact.record.document_shape import (
    AttemptDocument,
    DecisionDocument,
    EventDocument,
    RunDocument,
    StepDocument,
    StepEnding,
    StepValues,
)
from reenact.record.outcomes import denied_status, mark_of, said
from reenact.record.reader import Gone, RecordedStep, RunReader
from reenact.store.base import RunRow, Store
from reenact.values.canonical import parse_json
from reenact.values.envelope import Archived
from reenact.verify.files.zipped import files_at


def read_document(store: Store, run: str, *, values: bool = False) -> RunDocument:
    """The run with this id or prefix, or `last`; `values` puts parameters and outputs in, where they were not erased.

    Who works on a run is not looked for: `interrupted` is false and `next` is null.
    """
    row = store.find_run(run)
    return DocumentReader(store, row.run_id, values=values).read(row)


def read_bundle_document(folder: Path, *, values: bool = False) -> RunDocument:
    """The run of an exported folder, under the names that its plan has, where that came along. Refused when broken."""
    store, report = read_bundle(folder, wish="shown")
    with closing(files_at(folder)) as files:
        plan, gone = files.read("plan.json"), where_values_are(files)
    row = store.find_run(str(report.run_id))
    document = DocumentReader(store, row.run_id, values=values, gone=gone).read(row)
    names = parse_json(plan, what=f"{folder}/plan.json") if isinstance(plan, bytes) else {}
    if isinstance(names, dict):
        document["plan_id"] = names.get("plan_id", document["plan_id"])
        document["agent_id"] = names.get("agent_id", document["agent_id"])
    if document["seal"] is None:
        document["status"] = "open"
    return document


class DocumentReader:
    """The document of a run that may still go on: asked again, only what was committed since is read."""

    def __init__(
        self, store: Store, run_id: str, *, values: bool = False, gone: Mapping[str, Gone] | None = None
    ) -> None:
        """`gone` as for `RunReader`."""
        self._reader = RunReader(store, run_id, gone=gone)
        self._values = values
        self._steps: dict[int, StepDocument] = {}
        self._events: list[EventDocument] = []

    def read(self, row: RunRow) -> RunDocument:
        """The whole run as far as it is recorded. `row` is read before: its status is never ahead of the steps."""
        for recorded in self._reader.steps():
            self._steps[recorded.trace.step_index] = step_document(recorded, values=self._values)
        steps = [self._steps[index] for index in sorted(self._steps)]
        names = {step["trace_id"]: step["step_id"] for step in steps}
        events = self._reader.fold.events
        self._events += [event_document(self._reader.payloads, each, names) for each in events[len(self._events) :]]
        votes = vote_documents(self._reader, names)
        by_trace = {vote["trace_id"]: vote for vote in votes if vote["type"] == "vote"}
        for step in steps:
            step["vote"] = by_trace.get(step["trace_id"])
        told = sorted([*self._events, *votes], key=lambda event: event["ts"])
        return run_document(self._reader, row, steps, told)


def run_document(reader: RunReader, row: RunRow, steps: list[StepDocument], events: list[EventDocument]) -> RunDocument:
    record = reader.record()
    return {
        "run_id": row.run_id,
        "status": row.status,
        "kind": record.kind,
        "mode": record.mode,
        "parent_run": record.parent_run,
        "continued_by": continued_by(reader.store, row),
        "plan_id": row.plan_id,
        "agent_id": row.agent_id,
        "session": row.session,
        "plan_hash": record.plan_hash,
        "steps_planned": record.steps_planned,
        "started_at": record.started_at,
        "reenact_version": record.reenact_version,
        "commits": reader.fold.commits,
        "head": reader.fold.head,
        "cost_exact": str(reader.fold.spent_exact),
        "cost_cents": sum(step["cost_cents"] for step in steps),
        "steps": steps,
        "events": events,
        "replay": replay_document(reader) if record.mode != "live" else None,
        "seal": seal_document(reader),
        "interrupted": False,
        "next": None,
    }


def continued_by(store: Store, row: RunRow) -> str | None:
    """The run that a session went on as, where its host let it fork."""
    found = store.find_session(row.agent_id, row.session) if row.session is not None else None
    while found is not None and found.run_id != row.run_id and found.parent_run is not None:
        if found.parent_run == row.run_id:
            return found.run_id
        found = store.find_run(found.parent_run)
    return None


def step_document(step: RecordedStep, *, values: bool) -> StepDocument:
    """One step. Whether somebody voted about it stands elsewhere in the journal, and is put in by who knows."""
    trace = step.trace
    document: dict[str, Any] = {
        "step_index": trace.step_index,
        "step_id": trace.step_id,
        "skill": skill_name(trace.meta("skill_id"), trace.meta("skill_version")),
        "trace_id": trace.trace_id,
        "state": trace.state,
        "decision": decision_document(step),
        "idempotency_key": None if trace.call is None else trace.call.idempotency_key,
        "attempts": [attempt_document(attempt) for attempt in trace.attempts],
        **ending(step),
        "digests": dict(digests(step)),
    }
    if values:
        document |= values_of(step)
    return cast("StepDocument", document | {"vote": None})


def skill_name(skill_id: object, version: object) -> str:
    """As a plan names it; a tool that nobody knows has no version."""
    return str(skill_id) if version is None else f"{skill_id}@{version}"


def ending(step: RecordedStep) -> StepEnding:
    """How a step ended, from the chain alone: it can be told after the values are gone."""
    trace = step.trace
    meta = meta_of(trace.effect if trace.effect is not None else trace.decision)
    done = trace.terminal
    last = trace.effect or trace.decision
    assert trace.request is not None, "every trace begins with its request"
    return {
        "code": meta.get("code") if done else None,
        "status": (meta.get("status") or denied_status(str(meta.get("code")))) if done else None,
        "retries": meta.get("retries", 0) if done else None,
        "cost_exact": str(trace.cost_exact),
        "cost_cents": cents(trace.cost_exact),
        "served_from": meta.get("served_from"),
        "started_at": trace.request.ts,
        "ended_at": last.ts if done and last is not None else None,
        "message": message_of(step),
    }


def message_of(step: RecordedStep) -> str | None:
    """What went wrong, in the words that were recorded as a value; None where nothing did, or they were erased."""
    if not step.finished or step.trace.state == "COMPLETED":
        return None
    try:
        return said(step.outcome()) or None
    except ReenactError:
        return None  # `verify` tells what is wrong with a value; the timeline stands on the chain


def decision_document(step: RecordedStep) -> DecisionDocument | None:
    decided = step.trace.decision
    if decided is None:
        return None
    meta = meta_of(decided)
    return {
        "decision": decided.decision,
        "rationale": decided.rationale,
        "gate": meta.get("gate"),
        "code": meta.get("code"),
        "duplicate_of": meta.get("duplicate_of"),
        "ts": decided.ts,
    }


def attempt_document(attempt: Attempt) -> AttemptDocument:
    facts = attempt.facts
    return {
        "ordinal": attempt.ordinal,
        "kind": attempt.kind,
        "attempt": attempt.attempt,
        "code": attempt.code,
        "http_status": None if facts is None else facts.http_status,
        "exceptions": [] if facts is None else [link.type for link in facts.exceptions],
        "cost_exact": attempt.cost_exact,
        "backoff_ms": attempt.backoff_ms,
        "retry_after_ms": attempt.retry_after_ms,
        "request_id": attempt.request_id,
        "side_effects": [{"type": effect.type, "target": effect.target} for effect in attempt.side_effects],
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "fence": attempt.fence,
        "response": attempt.response,
        "digest": str(attempt.digest),
    }


def digests(step: RecordedStep) -> Iterator[tuple[str, str]]:
    trace = step.trace
    for name, artifact in (
        ("request", trace.request),
        ("decision", trace.decision),
        ("call", trace.call),
        ("effect", trace.effect),
    ):
        if artifact is not None:
            yield name, str(artifact.digest)
    yield "head", trace.head


def values_of(step: RecordedStep) -> StepValues:
    """Parameters and output, null where there is none; `absent` names those that were erased or not exported.

    An archived one is a mark.
    """
    request, effect = step.trace.request, step.trace.effect
    places: tuple[tuple[str, object, ArtifactType], ...] = (
        ("parameters", None if request is None else request.proposal.args.get("$commit"), "action_request"),
        ("output", None if effect is None else effect.commitment("/output"), "tool_effect"),
    )
    document: dict[str, Any] = {"parameters": None, "output": None, "absent": []}
    for name, commitment, named_by in places:
        if commitment is not None:
            try:
                document[name] = step.payloads.get(str(commitment), near=step.commits.get(named_by))
            except Archived as gone:
                document[name] = mark_of(gone)
            except LookupError:
                document["absent"].append(name)
    return cast("StepValues", document)


def meta_of(artifact: Artifact | None) -> dict[str, Any]:
    meta = getattr(artifact, "meta", None)
    return dict(meta) if isinstance(meta, dict) else {}


def seal_document(reader: RunReader) -> dict[str, Any] | None:
    seal = reader.fold.seal
    return None if seal is None else msgspec.to_builtins(seal)
