"""What the derived tables must hold, computed from a run's lines alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reenact.store.naming import Named, named_by, part, read_lines

UNORDERED = frozenset({"reason", "data"})
"""Payloads of events and votes may be made at any time before their commit."""


@dataclass(slots=True)
class KeyedCall:
    """A call under a caller's key: who made it, and how far it came."""

    trace_id: str
    server: str
    tool: str
    key: str
    agent_id: str
    skill_id: str
    args: str | None
    is_write: bool
    request: Mapping[str, Any] | None = None
    """Of a trace that another runtime wrote: its proposal, with arguments and key as they were given."""
    status: str | None = None
    dispatched: bool = True

    in_doubt: bool = False
    """Its answer was lost, it ended as in doubt, or the run ended while it was open."""

    @property
    def state(self) -> str:
        if self.in_doubt:
            return "in_doubt"
        if self.status is None:
            return "reserved"
        if self.request is not None:
            return "released" if self.status == "DENIED" else "completed"
        return "completed" if self.status == "SUCCESS" else "released"


@dataclass(slots=True)
class Rebuilt:
    """Fed with the commits of one run in order; then it knows what stands in the other tables."""

    run: Mapping[str, Any] | None = None
    seal: Mapping[str, Any] | None = None
    last_commit: int = 0
    highest_fence: int = 0
    traces: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    """step_index → (trace_id, step_id, commit)"""
    run_checkpoints: set[int] = field(default_factory=set)
    keyed: dict[str, KeyedCall] = field(default_factory=dict)
    """by trace id"""
    named_in: dict[str, int] = field(default_factory=dict)
    """commitment → the commit that first names it"""
    named_again: set[str] = field(default_factory=set)
    """commitments that a later commit names as well, through a payload of its own making"""
    outcomes: set[str] = field(default_factory=set)
    order: dict[int, list[str]] = field(default_factory=dict)
    """commit → the commitments that it names first, as their envelopes must lie"""
    late: list[tuple[str, str]] = field(default_factory=list)
    """(trace id, commitment) of what a fenced-off executor left and a later one took over"""
    opening: object = None
    """commitment of what a session knew when it began"""
    _requests: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)

    def take(self, n: int, body: bytes) -> None:
        self.last_commit = n
        made: list[Named] = []
        response: list[Named] = []
        for line in read_lines(body):
            named = named_by(line)
            if line.get("kind") == "attempt":
                made += response
                response = named
                self._attempt(part(line, "attempt"))
            elif [item.place for item in named] == ["output", "outcome"]:
                # The output is put away before the raw response that it was made from.
                made += [named[0], *response, named[1]]
                response = []
                self._entry(n, line)
            else:
                made += [*response, *named]
                response = []
                self._other(n, line)
        self._name(n, [*made, *response])

    def _name(self, n: int, made: list[Named]) -> None:
        fresh: list[str] = []
        for commitment, place in made:
            first = self.named_in.setdefault(commitment, n)
            if first < n and place != "call":
                self.named_again.add(commitment)
            if first == n and place not in UNORDERED and commitment not in fresh:
                fresh.append(commitment)
            if place == "outcome":
                self.outcomes.add(commitment)
        self.order[n] = fresh

    def _other(self, n: int, line: Mapping[str, Any]) -> None:
        kind = line.get("kind")
        if kind == "run":
            self.run = part(line, "run")
        elif kind == "seal":
            self.seal = part(line, "seal")
            for call in self.keyed.values():
                call.in_doubt |= call.status is None
        elif kind == "run_checkpoint":
            self.run_checkpoints.add(n)
        elif kind == "entry":
            self._entry(n, line)
        elif kind == "event":
            self._event(part(line, "event"))

    def _event(self, event: Mapping[str, Any]) -> None:
        if event.get("type") == "late":
            self.late.append((str(event.get("trace_id")), str(event.get("data"))))
        elif event.get("type") == "turn":
            self.opening = self.opening or event.get("data")

    @property
    def is_foreign(self) -> bool:
        """Written by another runtime through the log's own interface."""
        return self.run is not None and self.run.get("kind") == "trace"

    @property
    def is_session(self) -> bool:
        """Calls of a session run side by side, so that their payloads have no order that the lines would show."""
        return self.run is not None and self.run.get("kind") == "session"

    def _attempt(self, attempt: Mapping[str, Any]) -> None:
        fence = attempt.get("fence")
        if isinstance(fence, int):
            self.highest_fence = max(self.highest_fence, fence)
        call = self.keyed.get(str(attempt.get("trace_id")))
        if call is not None and attempt.get("kind") == "served":
            call.dispatched = False
        elif call is not None and attempt.get("kind") == "lost":
            call.in_doubt = True

    def _entry(self, n: int, line: Mapping[str, Any]) -> None:
        artifact, entry = part(line, "artifact"), part(line, "entry")
        trace_id = str(entry.get("trace_id"))
        kind = entry.get("artifact_type")
        meta = part(artifact, "meta")
        if self.is_foreign and kind == "action_request":
            self.traces[len(self.traces)] = (trace_id, "call", n)
            self._requests[trace_id] = (artifact, {})
        elif kind == "action_request":
            index = meta.get("step_index")
            if isinstance(index, int):
                self.traces[index] = (trace_id, str(meta.get("step_id")), n)
            if meta.get("idempotency_source") == "caller":
                self._requests[trace_id] = (artifact, meta)
        elif kind == "tool_call" and trace_id in self._requests:
            call = self.keyed[trace_id] = keyed_call(trace_id, artifact, *self._requests.pop(trace_id))
            call.request = part(artifact, "call") if self.is_foreign else None
        elif kind == "tool_effect" and trace_id in self.keyed:
            call = self.keyed[trace_id]
            call.status = str(part(artifact, "outcome").get("status"))
            # A person who says that it failed is not in doubt: that effect is a FAILURE.
            unheard = meta.get("code") in ("ERR_SERIALIZATION_FAILED", "ERR_SCHEMA_MISMATCH") and call.is_write
            call.in_doubt = call.status == "ERROR" and (meta.get("code") == "ERR_IN_DOUBT" or unheard)
            if call.status == "DENIED":
                call.dispatched = False


def keyed_call(
    trace_id: str, call: Mapping[str, Any], request: Mapping[str, Any], meta: Mapping[str, Any]
) -> KeyedCall:
    proposal = part(request, "proposal")
    args = part(proposal, "args").get("$commit")
    return KeyedCall(
        trace_id=trace_id,
        server=str(proposal.get("tool_server")),
        tool=str(proposal.get("tool_name")),
        key=str(call.get("idempotency_key")),
        agent_id=str(request.get("agent_id")),
        skill_id=str(meta.get("skill_id")),
        args=args if isinstance(args, str) else None,
        is_write=call.get("tool_class") != "read",
    )
