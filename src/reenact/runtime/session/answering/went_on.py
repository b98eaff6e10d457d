"""Callers that went on without an answer: they gave up on a call, or were told that it waits for a person.

Once such a lane calls something else, that is on record before it. A program that is started again meets the same: the
call does not return before its caller's own limit ends it, or says once more that it waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from reenact.contracts.records import Event
from reenact.errors import WaitingForPerson
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.record.outcomes import Payloads
from reenact.runtime.run import Run
from reenact.runtime.session.answering.lanes import Lane, Lanes, is_under
from reenact.values.clock import Clock, parse_ts

log = logging.getLogger("reenact.sessions")

Why = Literal["cancelled", "waiting", "answered"]
GRACE_S: Final = 10.0
"""How much longer than the first time a limit may take to end a call once more."""
LONGEST_BEFORE_S: Final = 600.0
"""How much of the time before a call may count for the limit that ended it: a limit may be around several calls."""


@dataclass(frozen=True, slots=True)
class WentOn:
    """On record: the caller of a call went on without its answer, or in a later start with it."""

    run_id: str
    commit: int
    why: Why
    patience_s: float = 0.0
    said: str = ""
    status: str = "waiting"


class Unrecorded(NamedTuple):
    """The same while nobody has gone on; it is forgotten where nobody does."""

    run_id: str
    lane: Lane
    data: dict[str, object]


class Unanswered:
    """Calls of one session whose callers have no answer, until their lane goes on."""

    def __init__(self, lanes: Lanes, clock: Clock) -> None:
        self._lanes = lanes
        self._clock = clock
        self._opened = clock.monotonic()
        self.calls: dict[str, Unrecorded] = {}
        """By trace."""
        self._told: list[tuple[WaitingForPerson, str]] = []
        """What callers were told, and of which traces."""

    def keep(self, run_id: str, trace: TraceFold, lane: Lane | None, why: BaseException) -> None:
        """Its caller was cancelled, or is told that it waits for a person."""
        assert lane is not None
        if isinstance(why, WaitingForPerson):
            data: dict[str, object] = {"why": "waiting", "status": why.status, "message": str(why)}
            self._told.append((why, trace.trace_id))
        else:
            open_ms = int((self._clock.monotonic() - self._opened) * 1000)
            since = 0 if trace.request is None else self._clock.now_ms() - parse_ts(trace.request.ts)
            data = {"why": "cancelled", "waited_ms": max(0, min(since, open_ms)), "open_ms": open_ms}
        self.calls[trace.trace_id] = Unrecorded(run_id, lane, data)

    async def as_it_went(self, trace: TraceFold, went_on: WentOn, lane: Lane | None) -> None:
        """Once more without an answer. Returns only if its caller's limit does not end that in time."""
        assert lane is not None
        if went_on.why == "waiting":
            told = WaitingForPerson(went_on.said, status=went_on.status, run_id=went_on.run_id, step_id=trace.step_id)
            self._told.append((told, trace.trace_id))
            raise told
        await asyncio.sleep(went_on.patience_s)
        log.warning(
            "step %s: its caller gave up on it in an earlier start, waits for it now, and is answered after %g s; what "
            "it calls next may not be what is recorded",
            trace.step_id,
            went_on.patience_s,
        )
        self.calls[trace.trace_id] = Unrecorded(went_on.run_id, lane, {"why": "answered"})

    async def record(self, run: Run, lane: Lane | None = None) -> None:
        """Before a lane, or with None a program, goes on: what its callers had no answer to."""
        if not self._going(lane):
            return
        if run.journal.has_staged:
            await run.journal.flush()  # an event is about a call that is in the journal already
        for trace_id in self._going(lane):
            run_id, its, data = self.calls.pop(trace_id)
            if run_id == run.run_id:  # else of one that this one continues
                stage(run, trace_id, {"lane": its.path, **data})

    async def told(self, run: Run) -> None:
        """Before the current lane is told what it asks for besides calls, so that its next start is told the same."""
        await self.record(run, self._lanes.current)
        await run.journal.flush()

    async def left_by(self, run: Run, error: BaseException | None) -> None:
        """A program that ends with such a call has not gone on, whatever others called: the next one is answered.

        Without an error it goes on, as another run.
        """
        if error is None:
            await self.record(run)
            return
        ended_by = {id(told) for told in causes(error)}
        for told, trace_id in self._told:
            if id(told) in ended_by and trace_id not in self.calls:
                stage(run, trace_id, {"lane": self._lanes.current.path, "why": "answered"})
        if run.journal.has_staged:
            await run.journal.flush()

    def _going(self, lane: Lane | None) -> list[str]:
        return [
            trace_id
            for trace_id, call in self.calls.items()
            if lane is None or is_under(lane.path, self._open(call.lane).path)
        ]

    def _open(self, lane: Lane) -> Lane:
        """The lane itself while it is open, else the nearest one around it that is."""
        while not lane.is_open and "." in lane.path:
            lane = self._lanes.at(lane.path.rpartition(".")[0])
        return lane


def stage(run: Run, trace_id: str, data: dict[str, object]) -> None:
    if "message" in data:
        data = {**data, "message": run.journal.book.redactor.redact_text(str(data["message"]))}
    kept, ts = run.journal.book.put_as_it_is(data)[0], run.clock.timestamp()
    run.journal.event(Event(data=kept, reason=None, trace_id=trace_id, ts=ts, type="went_on", who=None))


def causes(error: BaseException | None) -> Iterator[WaitingForPerson]:
    """Those that an error is, or is made of."""
    if isinstance(error, WaitingForPerson):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from causes(each)
    elif error is not None:
        yield from causes(error.__cause__)


def recorded(past: RunFold, payloads: Payloads, before: int) -> dict[str, WentOn]:
    """By trace, where its caller went on without its answer; `before` is how many commits came before this run's."""
    return {
        trace_id: went_on(past.run_id, before + commit, data_of(event, payloads))
        for trace_id, (commit, event) in past.went_on.items()
    }


def went_on(run_id: str, commit: int, said: Mapping[str, object]) -> WentOn:
    why = said.get("why", "cancelled")
    if why == "waiting":
        message, status = (str(said.get(name)) for name in ("message", "status"))
        return WentOn(run_id, commit, "waiting", said=message, status=status)
    if why == "cancelled":
        waited, opened = (int(str(said.get(name, 0))) / 1000 for name in ("waited_ms", "open_ms"))
        patience = max(waited, min(opened, LONGEST_BEFORE_S)) + GRACE_S
        return WentOn(run_id, commit, "cancelled", patience)
    return WentOn(run_id, commit, "answered")


def data_of(event: Event, payloads: Payloads) -> Mapping[str, object]:
    """Nothing where it was erased."""
    try:
        said = payloads.get(str(event.data))
    except LookupError:
        return {}
    return said if isinstance(said, dict) else {}
