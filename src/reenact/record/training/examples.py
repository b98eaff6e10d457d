"""The calls of one run as training examples, from the same events that its replay log has.

So values stand here as they may be handed on: what redaction took out is marked, and so is what was erased.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from reenact.record.payloads import StoredPayloads
from reenact.store.base import RunRow, Store
from reenact.trace.events import ReplayEvent, ToolCall, ToolResult, Verification
from reenact.trace.from_journal import ARCHIVED, ERASED, REDACTED, FromJournal
from reenact.values.canonical import canonicalize

PICODOLLARS: Final = 10**12


class Example(NamedTuple):
    """One call. `good` is whether it succeeded; `hidden` whether redaction took something out of it."""

    line: bytes
    tool: str
    at: str
    good: bool
    repeated: bool
    hidden: bool


class Skipped(NamedTuple):
    """A call that is no example, and why."""

    why: str


class _Made(NamedTuple):
    call: ToolCall
    result: ToolResult
    repeated: bool


def examples_of(store: Store, row: RunRow) -> Iterator[Example | Skipped]:
    """In the order in which the calls ended. A check of the work counts for the call that ended before it."""
    payloads = StoredPayloads(store, row.run_id).read_ahead()
    journal = FromJournal(payloads.get)
    open_calls: dict[str, tuple[ToolCall, bool]] = {}
    seen: set[tuple[str, str]] = set()
    last: _Made | None = None
    delta: int | None = None
    for event in events(store, row.run_id, journal):
        if isinstance(event, ToolCall):
            asked = (event.tool, event.params_hash)
            open_calls[event.id] = (event, asked in seen)
            seen.add(asked)
        elif isinstance(event, Verification):
            delta = event.verification_delta + (delta or 0)
        elif isinstance(event, ToolResult):
            if last is not None:
                yield example(row, journal.goal, last, delta)
            call, repeated = open_calls.pop(event.id)
            last, delta = _Made(call, event, repeated), None
    if last is not None:
        yield example(row, journal.goal, last, delta)
    for _ in open_calls:
        yield Skipped("it has no result")


def events(store: Store, run_id: str, journal: FromJournal) -> Iterator[ReplayEvent]:
    decode = msgspec.json.Decoder().decode
    for body in store.bodies(run_id):
        yield from journal.commit(decode(line) for line in body.splitlines())


def example(row: RunRow, goal: str | None, made: _Made, delta: int | None) -> Example | Skipped:
    call, result = made.call, made.result
    if call.params in (ERASED, ARCHIVED):
        return Skipped(f"its parameters are {'erased' if call.params == ERASED else 'archived'}")
    cost = int(str(result.extra.get("cost_exact", "0")))
    hidden = has_redacted(call.params)
    repeated = None if made.repeated and hidden else made.repeated  # what was taken out of the two may differ
    document = {
        "inputs": {"step": call.step_id, "intent": goal},
        "outputs": {"tool": call.tool, "params": call.params},
        "labels": {
            "step_utility": result.step_utility,
            "verification_delta": delta,
            "was_repeated": repeated,
            "cost": cost / PICODOLLARS,
        },
        "source": {"call_id": call.id, "code": result.extra.get("code"), "run_id": row.run_id},
    }
    return Example(
        canonicalize(document) + b"\n",
        f"{call.tool}@{call.extra.get('tool_version') or 'unknown'}",
        call.t,
        str(result.extra.get("code", "")).startswith("OK"),
        bool(repeated),
        hidden,
    )


def has_redacted(value: object) -> bool:
    if isinstance(value, dict):
        return value == REDACTED or any(has_redacted(each) for each in value.values())
    return isinstance(value, list) and any(has_redacted(each) for each in value)
