"""Scheduler of a session's replay: calls that overlapped are driven again in the order that the record shows.

What one call decides may depend on what others have reserved or spent by then, so the order is part of the record.
"""

from __future__ import annotations

import asyncio
from operator import itemgetter
from typing import Literal, NamedTuple

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
        self._names: dict[str, str] = {}
        self._before: dict[str, str] = {}
        """The kind of a call's last record but `lost`, which decides nothing."""

    def read(self, body: bytes, where: str) -> None:
        begun: list[Moment] = []
        then: list[Moment] = []
        last: dict[str, int] = {}
        for raw in split_body(body, where=where):
            line = decode_line(raw, where=where)
            if line.entry is not None and line.entry.sequence_number == 1:
                request = decode_artifact(line, where=where)
                meta = request.meta if isinstance(request.meta, dict) else {}
                name = self._names[line.entry.trace_id] = str(meta.get("step_id"))
                begun.append(Moment(name, "begins", line.entry.artifact_id))
            elif line.entry is not None:
                self._entry(line.entry, then, last)
            elif line.attempt is not None and line.attempt.kind != "lost":
                self._attempt(line.attempt, then, last)
        self.all += [*begun, *as_made(then)]

    def _entry(self, entry: LogEntry, then: list[Moment], last: dict[str, int]) -> None:
        name = self._names[entry.trace_id]
        if entry.artifact_type == "supervisor_decision":
            then.append(Moment(name, "decided", entry.artifact_id))
        elif entry.trace_id in last:
            at = last[entry.trace_id]  # a result that ended its call: as the effect was made
            then[at] = then[at]._replace(made=entry.artifact_id)
        if entry.artifact_type == "tool_effect":
            then.append(Moment(name, "ended", entry.artifact_id))

    def _attempt(self, record: Attempt, then: list[Moment], last: dict[str, int]) -> None:
        name = self._names[record.trace_id]
        before, self._before[name] = self._before.get(name), record.kind
        if record.kind == "redispatch":
            then.append(Moment(name, "again"))
        elif record.kind == "attempt":
            if before == "attempt":
                insert_by_time(self.all, Moment(name, "again", begin_of_ids(record.started_at)))
            last[record.trace_id] = len(then)
            then.append(Moment(name, "result", begin_of_ids(record.ended_at)))


def insert_by_time(moments: list[Moment], again: Moment) -> None:
    """That there was money for a retry is recorded with its result alone: when it was asked, the clock tells."""
    at = len(moments)
    while at and moments[at - 1].step_id != again.step_id and moments[at - 1].made[: len(again.made)] > again.made:
        at -= 1
    moments.insert(at, again)


def begin_of_ids(ts: str | None) -> str:
    """How the ids of a millisecond begin."""
    digits = f"{0 if ts is None else max(0, parse_ts(ts)):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def as_made(moments: list[Moment]) -> list[Moment]:
    """The lines of a commit stand trace by trace, whatever was first; what a call decides depends on what was."""
    return sorted(moments, key=itemgetter(2))


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
