"""What a replay run says about itself in its own journal: what to do with each step, and how it compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from reenact.contracts.records import Event
from reenact.errors import EvidenceError
from reenact.journal.run_fold import RunFold
from reenact.record.document_events import REPLAY_TRACE
from reenact.record.payloads import StoredPayloads
from reenact.record.reader import RunReader
from reenact.replay.result import ReplayResult
from reenact.runtime.listeners import Listener, Notice, tell_all
from reenact.runtime.run import Run
from reenact.store.base import Store

DIRECTIVE: Final = "reenact.replay_directive.v1"
TRACE: Final = REPLAY_TRACE


def note(run: Run, document: dict[str, object]) -> None:
    """Stage a note; it is durable with the run's next commit."""
    data = run.journal.book.put(document)[0]
    run.journal.event(
        Event(data=data, reason=None, trace_id=None, ts=run.clock.timestamp(), type="verify", who="reenact replay")
    )


def trace_record(run_id: str, result: ReplayResult) -> dict[str, object]:
    """The replay trace record, in the words of the determinism specification."""
    return {
        "schema": TRACE,
        "trace_id": run_id,
        "replay_mode": result.mode,
        "original_run_id": result.original_run_id,
        "behavior_match": dict(result.behavior_match),
        "verdict": result.verdict,
    }


def tell_compared(listeners: tuple[Listener, ...], result: ReplayResult) -> ReplayResult:
    """The same result, once listeners have heard how it compared."""
    told = Notice("replay_compared", result.run_id, status=result.status, mode=result.mode, verdict=result.verdict)
    tell_all(listeners, replace(told, behavior_match=result.behavior_match))
    return result


def notes_of(store: Store, run_id: str, fold: RunFold | None = None) -> list[dict[str, object]]:
    """All notes of a run, in their order; those whose values were erased are left out."""
    if fold is None:
        reader = RunReader(store, run_id)
        for _ in reader.steps():
            pass
        fold = reader.fold
    payloads = StoredPayloads(store, run_id)
    found: list[dict[str, object]] = []
    for event in fold.events:
        if event.type != "verify" or event.data is None:
            continue
        try:
            value = payloads.get(event.data)
        except LookupError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def directive_of(store: Store, run_id: str, fold: RunFold) -> dict[str, object]:
    """What the replay was told when it started."""
    for document in notes_of(store, run_id, fold):
        if document.get("schema") == DIRECTIVE:
            return document
    raise EvidenceError(f"run {run_id} is a replay and does not say what it was told to do; start a new one")
