"""The events in a run's document: votes, decisions about calls in doubt, cancels, turns, checks of the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from reenact.contracts.records import Event, Vote
from reenact.record.document_shape import EventDocument, ReplayDocument
from reenact.record.payloads import StoredPayloads, Withheld
from reenact.record.reader import RunReader
from reenact.store.keys.ballots import asked_to_cancel, waiting_votes
from reenact.values.envelope import Archived

REPLAY_TRACE: Final = "reenact.replay_trace.v1"
TELLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "resolve": ("data", ("resolution", "reason")),
    "cancel": ("data", ("reason",)),
    "verify": ("data", ("commands", "exit_codes", "verification_delta")),
    "accept_changed": ("data", ("skill", "pinned", "found")),
    "went_on": ("data", ("why", "lane")),
    "finish": ("reason", ("confidence",)),
}
"""type → which of its payloads is opened, and what of it is shown. The others hold plans and values."""


def event_document(payloads: StoredPayloads, event: Event, steps: Mapping[str, str]) -> EventDocument:
    """`steps` gives a step's id by its trace."""
    document: EventDocument = {
        "type": event.type,
        "ts": event.ts,
        "who": event.who,
        "trace_id": event.trace_id,
        "step_id": None if event.trace_id is None else steps.get(event.trace_id),
    }
    place, names = TELLS.get(event.type, ("data", ()))
    commitment = event.reason if place == "reason" else event.data
    if not names or commitment is None:
        return document
    return cast("EventDocument", document | told(payloads, commitment, names))


def told(payloads: StoredPayloads, commitment: str, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = payloads.get(commitment)
    except LookupError as gone:
        became = "archived" if isinstance(gone, Archived) else "withheld" if isinstance(gone, Withheld) else "erased"
        return dict.fromkeys(names) | {became: True}
    return {name: value.get(name) for name in names} if isinstance(value, dict) else dict.fromkeys(names)


def replay_document(reader: RunReader) -> ReplayDocument | None:
    """How a replay compared with its original, as its own journal says at its end; None of any other run."""
    for event in reversed(reader.fold.events):
        if event.type != "verify" or event.data is None:
            continue
        try:
            value = reader.payloads.get(event.data)
        except LookupError:
            continue
        if isinstance(value, dict) and value.get("schema") == REPLAY_TRACE:
            return cast("ReplayDocument", {name: value.get(name) for name in ReplayDocument.__annotations__})
    return None


def vote_documents(reader: RunReader, steps: Mapping[str, str]) -> list[EventDocument]:
    """Votes as the journal has them, then those that whoever holds the run has not heard yet."""
    votes = reader.fold.votes
    return [
        *(vote_document(reader.payloads, vote, steps) for vote in votes.values()),
        *unheard(reader, steps, set(votes)),
        *ignored_cancels(reader),
    ]


def ignored_cancels(reader: RunReader) -> list[EventDocument]:
    """What asks for the end of a run that goes on, and is not believed."""
    note = None if reader.fold.seal else reader.store.cancel_request(reader.run_id)
    why = None if note is None else asked_to_cancel(reader.store, reader.run_id, note)
    if not isinstance(why, str) or reader.fold.record is None:
        return []
    ts = reader.fold.record.started_at
    return [{"type": "cancel_ignored", "ts": ts, "who": None, "trace_id": None, "step_id": None, "reason": why}]


def vote_document(payloads: StoredPayloads, vote: Vote, steps: Mapping[str, str]) -> EventDocument:
    document: EventDocument = {
        "type": "vote",
        "ts": vote.ts,
        "who": vote.who,
        "trace_id": vote.trace_id,
        "step_id": steps.get(vote.trace_id),
        "decision": vote.decision,
        "heard": True,
    }
    reason = {"reason": None} if vote.reason is None else told(payloads, vote.reason, ("reason",))
    return cast("EventDocument", document | reason)


def unheard(reader: RunReader, steps: Mapping[str, str], heard: set[str]) -> list[EventDocument]:
    """Votes that wait in the store for whoever holds the run."""
    if not any(trace.state == "PENDING" for trace in reader.fold.open.values()):
        return []
    found: list[EventDocument] = []
    said, ignored = waiting_votes(reader.store, reader.run_id)
    for trace_id, why in ignored.items():
        asked = reader.fold.open[trace_id].request if trace_id in reader.fold.open else None
        if asked is not None:
            place = {"trace_id": trace_id, "step_id": steps.get(trace_id)}
            found.append({"type": "vote_ignored", "ts": asked.ts, "who": None, **place, "reason": why})  # type: ignore[typeddict-item]
    for trace_id, vote in said.items():
        if trace_id in heard or trace_id not in reader.fold.open or reader.fold.open[trace_id].state != "PENDING":
            continue
        found.append(
            {
                "type": "vote",
                "ts": vote.ts,
                "who": vote.who,
                "trace_id": trace_id,
                "step_id": steps.get(trace_id),
                "decision": vote.decision,
                "heard": False,
                "reason": vote.reason,
            }
        )
    return found
