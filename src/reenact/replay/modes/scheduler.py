"""Scheduler of a session's replay: calls that overlapped are driven again in the order that the record shows.

What one call decides may depend on what others have reserved or spent by then, so the order is part of the record.
"""

from __future__ import annotations

import asyncio
from collections import deque
from operator import attrgetter
from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType

from reenact.contracts.artifacts import LogEntry
from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Attempt
from reenact.journal.lines import decode_artifact, decode_line, split_body
from reenact.record.recording import Recording
from reenact.replay.sources.recorded import NothingRecorded, RecordedSource
from reenact.replay.sources.stand_in import ReplayPlan
from reenact.runtime.call.begin import begin
from reenact.runtime.call.call import Call
from reenact.runtime.call.drive import drive
from reenact.runtime.plans.plan_run import begin_turn
from reenact.runtime.run import Run
from reenact.values.clock import parse_ts

LONGEST_QUIET = 200
"""How often the loop is given away before a call counts as waiting for another one."""


class Moment(NamedTuple):
    """A call begins, is decided, has the result of an attempt, is sent again, or ends, with an attempt or without."""

    step_id: str
    kind: Literal["begins", "decided", "result", "again", "ended"]
    made: str = ""
    """The id of what records it, or as much of one as the time gives: ids of a process grow."""
    place: int = 0
    """How many moments of the run that are records came before it."""


class Made(NamedTuple):
    """A decision, an attempt, or an effect with the attempt that it was made with."""

    key: str
    moments: list[Moment]
    records: int = 1
    after: int | UnsetType = UNSET


def moments_of(recording: Recording) -> list[Moment]:
    """The moments of all calls, in the order of the journal."""
    found = Moments()
    for number, body in enumerate(recording.store.bodies(recording.run_id), start=1):
        found.read(body, f"run {recording.run_id}, commit {number}")
    return found.all


class Moments:
    """Reads them commit by commit."""

    def __init__(self) -> None:
        self.all: list[Moment] = []
        self._count = 0
        """Decisions, attempts and effects so far."""
        self._names: dict[str, str] = {}
        self._before: dict[str, str] = {}
        """The kind of a call's last record but `lost`, which decides nothing."""

    def read(self, body: bytes, where: str) -> None:
        begun: list[Moment] = []
        made: list[Made] = []
        retries: list[Attempt] = []
        last: str | None = None
        """The trace of which an attempt stands in the line before."""
        for raw in split_body(body, where=where):
            line, before, last = decode_line(raw, where=where), last, None
            if line.entry is not None and line.entry.sequence_number == 1:
                request = decode_artifact(line, where=where)
                meta = request.meta if isinstance(request.meta, dict) else {}
                name = self._names[line.entry.trace_id] = str(meta.get("step_id"))
                begun.append(Moment(name, "begins", line.entry.artifact_id))
            elif line.entry is not None and line.entry.artifact_type != "tool_call":
                is_with_it = before == line.entry.trace_id and made[-1].key and made[-1].after is UNSET
                made.append(self._entry(line.entry, made.pop() if is_with_it else None))
            elif line.attempt is not None:
                if self._is_retry(line.attempt):
                    retries.append(line.attempt)
                last = line.attempt.trace_id
                made.append(self._attempt(line.attempt))
        for retry in retries:
            if isinstance(retry.asked_after, UnsetType):
                insert_by_time(self.all, Moment(self._names[retry.trace_id], "again", begin_of_ids(retry.started_at)))
        self.all += [*begun, *self._in_order(made)]
        for retry in retries:
            if isinstance(retry.asked_after, int):
                insert_by_place(self.all, Moment(self._names[retry.trace_id], "again", "", retry.asked_after))

    def _entry(self, entry: LogEntry, attempt: Made | None) -> Made:
        """A decision, or an effect with what was recorded right before it."""
        kind: Literal["decided", "ended"] = "decided" if entry.artifact_type == "supervisor_decision" else "ended"
        moment = Moment(self._names[entry.trace_id], kind, entry.artifact_id)
        with_it = [] if attempt is None else [each._replace(made=entry.artifact_id) for each in attempt.moments]
        return Made(entry.artifact_id, [*with_it, moment], 1 + (attempt is not None))

    def _attempt(self, record: Attempt) -> Made:
        name, when = self._names[record.trace_id], begin_of_ids(record.ended_at)
        if record.kind == "redispatch":
            return Made("", [Moment(name, "again")], after=record.made_after)
        moments = [Moment(name, "result", when)] if record.kind == "attempt" else []
        return Made(when, moments, after=record.made_after)

    def _is_retry(self, record: Attempt) -> bool:
        """Whether money for it was asked for after its call had come back without an end."""
        if record.kind == "lost":
            return False
        before, self._before[record.trace_id] = self._before.get(record.trace_id), record.kind
        return record.kind == before == "attempt"

    def _in_order(self, made: list[Made]) -> list[Moment]:
        """The lines of a commit stand trace by trace, whatever was first; what a call decides depends on what was.

        Ids grow, and what has none tells its place, or as much as its time tells.
        """
        placed = deque(sorted((each for each in made if each.after is not UNSET), key=attrgetter("after")))
        others = deque(as_made([each for each in made if each.after is UNSET]))
        found: list[Moment] = []
        while placed or others:
            is_next = placed and (not others or int(placed[0].after or 0) <= self._count)
            each = placed.popleft() if is_next else others.popleft()
            found += [moment._replace(place=self._count) for moment in each.moments]
            self._count += each.records
        return found


def insert_by_place(moments: list[Moment], again: Moment) -> None:
    """That there was money for a retry is recorded with its result, which tells when it was asked."""
    at = len(moments)
    while at and (moments[at - 1].kind == "begins" or moments[at - 1].place >= again.place):
        at -= 1
    moments.insert(at, again)


def insert_by_time(moments: list[Moment], again: Moment) -> None:
    """Records of before tell by the clock when it was asked, to the millisecond."""
    at = len(moments)
    while at and moments[at - 1].step_id != again.step_id and moments[at - 1].made[: len(again.made)] > again.made:
        at -= 1
    moments.insert(at, again)


def begin_of_ids(ts: str | None) -> str:
    """How the ids of a millisecond begin."""
    digits = f"{0 if ts is None else max(0, parse_ts(ts)):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def as_made(lines: list[Made]) -> list[Made]:
    """In the order of their ids, or times."""
    return sorted(lines, key=attrgetter("key"))


class Scheduler:
    """Drives the calls of a session, each in a task of its own, one moment after the other."""

    def __init__(self, run: Run, plan: ReplayPlan, source: RecordedSource) -> None:
        self._run = run
        self._plan = plan
        self._begun: dict[str, Call] = {}
        self._source = source
        self._held: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[StructuredOutcome]] = {}
        source.in_turn = self._wait

    async def drive(self, moments: list[Moment]) -> NothingRecorded | None:
        """What was asked for and is not recorded, if the replay came to that; then the rest is left."""
        try:
            for moment in moments:
                if moment.kind == "begins":
                    self._begin(moment.step_id)
                elif moment.kind == "decided":
                    await self._decide(moment.step_id)
                elif moment.step_id in self._held:
                    self._held.pop(moment.step_id).set()
                    await self._quiet(moment.step_id)
                stop = self._stopped()
                if stop is not None:
                    return stop
            return self._stopped()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._run.journal.flush()

    def _begin(self, step_id: str) -> None:
        step = self._plan.step(self._plan.index[step_id])
        begin_turn(self._run, step)
        self._begun[step_id] = begin(self._run, step)

    async def _decide(self, step_id: str) -> None:
        call = self._begun.pop(step_id)
        if call.gate is not None and self._source.passed_duplicates(step_id):
            call.gate.release_equal(call)
        self._tasks[step_id] = asyncio.create_task(drive(call))
        await self._quiet(step_id)

    async def _wait(self, step_id: str) -> None:
        self._held[step_id] = asyncio.Event()
        await self._held[step_id].wait()

    async def _quiet(self, step_id: str) -> None:
        """Until the call has ended, waits for its next attempt, or waits for another call."""
        for _ in range(LONGEST_QUIET):
            await asyncio.sleep(0)
            if self._tasks[step_id].done() or step_id in self._held:
                return

    def _stopped(self) -> NothingRecorded | None:
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                error = task.exception()
                if isinstance(error, NothingRecorded):
                    return error
                if error is not None:
                    raise error
        return None
