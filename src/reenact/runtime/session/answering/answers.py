"""Answers from the record: what a program that was started again asks for is looked up before anything is made.

A call is found by its name: the lane, its place there, or what its host calls it. In a lane, whatever had returned
before a call was made has to be asked for before that call is: so calls one after the other come in their order, and
calls side by side in any. What is asked for otherwise is `Diverged`, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from reenact.contracts.outcome import StructuredOutcome
from reenact.contracts.records import Event, EventType
from reenact.contracts.references import has_encrypted
from reenact.errors import Diverged, SecretError, UsageError
from reenact.journal.run_fold import RunFold
from reenact.record.outcomes import Payloads
from reenact.record.reader import RecordedStep
from reenact.runtime.session.answering import hints
from reenact.runtime.session.answering.calls import Asked, Ended, LaneRecord, RecordedCall, recorded_calls
from reenact.runtime.session.answering.lanes import MAIN, NUMBERED, Lanes, is_under, lane_of
from reenact.runtime.session.answering.telling import is_as_recorded, listed, on_a_line, shown_call
from reenact.runtime.session.answering.turns import PATIENCE_S, POLL_S, Turns, others_may_ask
from reenact.runtime.session.answering.went_on import Unanswered
from reenact.runtime.session.plan import Document
from reenact.runtime.writing.redaction import Redactor
from reenact.values.difference import first_difference

__all__ = ["Answers", "Asked", "Ended", "RecordedCall", "Unanswered"]

TOLD: Final = ("turn", "verify", "now")
"""Events that answer the program."""


class Answers:
    """The record of a session, as far as the program has asked for it again. Threads may share it."""

    def __init__(self, redactor: Redactor, *, in_test: bool = False, has_ended: bool = False) -> None:
        self.lanes = Lanes()
        self.turns = Turns()
        self.advice = ENDED_ADVICE if has_ended else ADVICE
        self.in_test = in_test
        """All of the record is to be asked for, and nothing else."""
        self._redactor = redactor
        self._lock = threading.Lock()
        self._by_name: dict[str, RecordedCall] = {}
        self._by_lane: dict[str, LaneRecord] = {}
        self._unasked: dict[str, RecordedCall] = {}
        """Those that were not asked for yet, by name."""
        self._told: dict[tuple[str, str], deque[Document]] = {}
        """By kind and lane, what events say."""
        self._asked_told: dict[tuple[str, str], int] = {}
        """By kind and lane, how many of them were asked for."""
        self.stopped: Diverged | None = None
        """In what the program first went another way. It makes nothing new any more, also where it has caught that."""
        self.made: dict[str, None] = {}
        """Names of the calls that were made in this process, in their order."""
        self._commits = 0
        """Of the runs whose record this is."""

    def keep(self, past: RunFold, steps: Iterable[RecordedStep], payloads: Payloads) -> None:
        """What an earlier start has left."""
        for call in recorded_calls(past, steps, payloads, self._redactor, self._commits):
            self._keep(call)
        turns = -1  # the first is the opening
        for event in past.events:
            turns += event.type == "turn"
            if (event.type in TOLD and turns > 0) or event.type in TOLD[1:]:
                said = {"turn": turns, "lane": MAIN, **said_by(event, payloads)}
                self._told.setdefault((event.type, str(said["lane"])), deque()).append(said)
        self._commits += past.commits

    def carry_over(self, continues: Document) -> None:
        """Of all that was kept so far, what the run that goes on has taken with it."""
        carried = continues["carried"]
        assert isinstance(carried, list)
        self._only({*carried})
        told = continues["told"]
        counts = {(kind, lane): count for kind, lane, count in told} if isinstance(told, list) else {}
        self._told = {key: deque(list(kept)[: counts.get(key, 0)]) for key, kept in self._told.items()}

    def _only(self, names: set[str]) -> None:
        self._by_name = {name: call for name, call in self._by_name.items() if name in names}
        self._unasked = {name: call for name, call in self._unasked.items() if name in names}
        self.turns.only(names)
        for lane in self._by_lane.values():
            lane.calls, lane.first = [call for call in lane.calls if call.name in names], 0

    def _keep(self, call: RecordedCall) -> None:
        self.turns.add(call)
        self._by_name[call.name] = self._unasked[call.name] = call
        if lane_of(call.name) is not None or NUMBERED.match(call.name):
            self._by_lane.setdefault(call.lane, LaneRecord()).calls.append(call)

    # -- calls -----------------------------------------------------------------------------------------------------

    async def find(self, asked: Asked, *, by_threads: bool) -> RecordedCall | None:
        """The recorded call, which then is asked for; None for one that is new. Diverged where it is neither.

        Where others may ask, tasks or threads, they have a while to do so: calls side by side come in any order.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._find(asked)
            except Diverged:
                if time.monotonic() > until or not others_may_ask(by_threads=by_threads):
                    raise
            await asyncio.sleep(POLL_S)

    def answer_at_once(self, asked: Asked) -> StructuredOutcome | RecordedCall | None:
        """As `find`, where nothing is waited for, and its answer where it has one whose turn it is."""
        try:
            found = self._find(asked)
        except Diverged:
            return None  # others may have to be waited for
        if found is None or self.in_test or not found.answers_at_once or not self.turns.has_come(found):
            return found
        found.is_answered = True
        return found.answer()

    def taken(self, name: str) -> None:
        """The thread that asked for this call has its answer."""
        found = self._by_name.get(name)
        if found is not None:
            found.is_answered = True

    def _find(self, asked: Asked) -> RecordedCall | None:
        with self._lock:
            found = self._named(asked) if asked.name is not None else self._placed(asked)
            if found is not None:
                self._ask(found)
            elif self._unasked and not self.in_test:
                self._refuse_unaccounted(asked)
            return found

    def _ask(self, call: RecordedCall) -> None:
        call.is_asked = True
        self._unasked.pop(call.name, None)

    def _named(self, asked: Asked) -> RecordedCall | None:
        found = self._by_name.get(str(asked.name))
        if found is None:
            return None
        if found.is_asked:
            raise UsageError(f"step_id {asked.name!r} is that of another call of this session; take another")
        if not self._is_same(found, asked):
            raise self._another(found, asked)
        return found

    def _placed(self, asked: Asked) -> RecordedCall | None:
        lane = self._by_lane.get(asked.path)
        if lane is None:
            return None
        expected = list(lane.next())
        expected.sort(key=lambda call: call.name != asked.step_id)  # its own place first
        for call in expected:
            if self._is_same(call, asked):
                return call
        if expected:
            raise self._another(expected[0], asked)
        return None

    def _is_same(self, call: RecordedCall, asked: Asked) -> bool:
        if call.skill_id != asked.skill_id:
            return False
        if asked.version is not None and call.trace.meta("skill_version") != asked.version:
            return False
        recorded = call.step.parameters()
        if recorded is None:
            return True  # they were erased: its place and its skill are all that is known of it
        opened = recorded
        if has_encrypted(recorded):
            opened = self._redactor.decrypt(recorded)
            shut = self._redactor.why_shut(opened)
            if shut is not None:
                raise SecretError(f"what step {call.name} was called with is encrypted: {shut}")
        return is_as_recorded(self._redactor, opened, asked.parameters, asked.hints)

    async def before_new(self, asked: Asked, *, by_threads: bool) -> None:
        """Waits for the recorded writes. Diverged in a test, and where the program went another way already."""
        if self.in_test:
            self.stop(self._not_in_record(asked))
        else:
            await self.turns.wait(None, by_threads=by_threads)
        self.refuse_stopped()

    def _not_in_record(self, asked: Asked) -> Diverged:
        nearest = self._nearest(asked)
        return Diverged(
            f"{asked.step_id} is not in the record: {on_a_line(self._shown(asked))}"
            + (f"; most like it was {nearest.name}" if nearest is not None else ""),
            kind="new_call",
            lane=asked.path,
            place=asked.place,
            asked=self._shown(asked),
            nearest=None if nearest is None else nearest.name,
        )

    def _refuse_unaccounted(self, asked: Asked) -> None:
        """A new call is not made while a write of its lane, or of one below it, was not asked for again.

        A lane that is open keeps its own order: it may still come to that.
        """
        here, open_lanes = asked.path, {path for path, lane in self.lanes.known.items() if lane.is_open}
        names = [
            call.name
            for call in self.unasked_writes()
            if (is_under(call.lane, here) and (call.lane == here or call.lane not in open_lanes))
            or self._is_same(call, asked)  # in a lane that is called otherwise now
        ]
        if names:
            diverged = Diverged(
                f"{asked.step_id} is new, and {listed(names)} of the record was not asked for before it: it has taken "
                f"effect, and this program seems not to know. Nothing was sent. {self.advice}",
                kind="unaccounted_write",
                lane=here,
                place=asked.place,
                asked=self._shown(asked),
                recorded=self._shown_call(self._by_name[names[0]]),
                nearest=names[0],
                unaccounted=tuple(names),
            )
            diverged.add_note(hints.to_account_for(names))
            raise diverged

    def _another(self, call: RecordedCall, asked: Asked) -> Diverged:
        """What is asked for under the name of a recorded call is another one."""
        recorded, wanted = self._shown_call(call, asked.hints), self._shown(asked)
        nearest = self._nearest(asked)
        if call.skill_id != asked.skill_id:
            kind, pointer, hint = "another_call", None, None
            what = f"it was {recorded['skill_id']}, and now it is {wanted['skill_id']}"
        else:
            found = first_difference(recorded["parameters"], wanted["parameters"])
            kind, pointer = "other_arguments", "" if found is None else found.pointer
            version, secret = call.trace.meta("skill_version"), "what is like a secret in its arguments is another one"
            same = asked.version in (None, version)
            what = f"{asked.skill_id}: {found or (secret if same else f'version {version} → {asked.version}')}"
            hint = None if found is None else hints.about(found.before, found.after)
        also = f"; most like it was {nearest.name}" if nearest is not None and nearest is not call else ""
        diverged = Diverged(
            f"{call.name} is recorded for something else: {what}{also}"
            + ("" if self.in_test else f". Nothing was sent. {self.advice}"),
            kind=kind,
            lane=asked.path,
            place=asked.place,
            recorded=recorded,
            asked=wanted,
            pointer=pointer,
            nearest=None if nearest is None else nearest.name,
            unaccounted=tuple(each.name for each in self.unasked_writes()),
        )
        if hint is not None:
            diverged.add_note(hint)
        return diverged

    def _nearest(self, asked: Asked) -> RecordedCall | None:
        """The recorded call of the same skill whose arguments are the same, or at least of the same lane."""
        alike = [call for call in self._by_name.values() if call.skill_id == asked.skill_id]
        for call in alike:
            if self._is_same(call, asked):
                return call
        return next((call for call in alike if not call.is_asked and call.lane == asked.path), None)

    def _shown_call(self, call: RecordedCall, hints: tuple[str, ...] = ()) -> Document:
        opened = self._redactor.decrypt(call.step.parameters(), passed_on=True)  # so that none of it is shown
        return shown_call(self._redactor, call.skill_id, opened, hints)

    def _shown(self, asked: Asked) -> Document:
        return shown_call(self._redactor, asked.skill_id, asked.parameters, asked.hints)

    # -- what is left ----------------------------------------------------------------------------------------------

    def new_name(self, asked: Asked) -> str:
        """Of a call that is made: its place, or the next that no recorded call has."""
        assert asked.lane is not None
        number = asked.place
        while (name := f"{asked.path}:{number}") in self._by_name or name in self.made:
            number += 1
        asked.lane.calls = max(asked.lane.calls, number)
        return f"{asked.path}:{number}"

    def go_on_after(self) -> None:
        """All that is recorded counts as asked for, and calls are numbered on: the host does not start over."""
        for call in self._by_name.values():
            self._ask(call)
            call.is_answered = True
            self.lanes.at(call.lane).calls += 1

    def asked(self) -> list[RecordedCall]:
        """The recorded calls that the program has come to, in their order."""
        return [call for call in self._by_name.values() if call.is_asked]

    def unasked(self) -> list[RecordedCall]:
        return list(self._unasked.values())

    def unasked_writes(self) -> list[RecordedCall]:
        return [call for call in self.unasked() if call.is_write]

    def account_for(self, names: Iterable[str]) -> None:
        """The host knows of these calls by itself."""
        with self._lock:
            wanted = list(names)
            for name in wanted:
                if name not in self._by_name:
                    raise UsageError(f"there is no call {name!r} in the record of this session")
            for name in wanted:
                self._ask(self._by_name[name])
                self._by_name[name].is_answered = True

    def stop(self, diverged: Diverged) -> None:
        self.stopped = self.stopped or diverged

    def refuse_stopped(self) -> None:
        if self.stopped is not None:
            raise self.stopped

    def refuse_not_asked(self) -> None:
        """At the end of the program: every write that was recorded was asked for again; in a test, every call."""
        self.refuse_stopped()
        left = self.unasked() if self.in_test else self.unasked_writes()
        if left:
            diverged = Diverged(
                f"the program has ended, and did not ask for {self.listed(left)} of the record"
                + ("" if self.in_test else f", which may have taken effect. {self.advice}"),
                kind="not_asked",
                lane=left[0].lane,
                recorded=self._shown_call(left[0]),
                nearest=left[0].name,
                unaccounted=tuple(call.name for call in left),
            )
            if not self.in_test:
                diverged.add_note(hints.to_account_for([call.name for call in left]))
            raise diverged

    def listed(self, calls: list[RecordedCall]) -> str:
        """Their names; in a test, which makes them again from their code, also what they are."""
        if not self.in_test:
            return listed([call.name for call in calls])
        return listed([f"{call.name} {on_a_line(self._shown_call(call))}" for call in calls])

    # -- going on as another run --------------------------------------------------------------------------------------

    def asked_names(self) -> list[str]:
        """Of all calls that the program has asked for, answered or made; not of one that was never sent."""
        sent = (call for call in self.asked() if call.is_finished or call.trace.state == "EXECUTING")
        return [*(call.name for call in sent), *self.made]

    def told_so_far(self) -> list[list[object]]:
        """[kind, lane, how often], of what the lanes were told."""
        return [[kind, lane, count] for (kind, lane), count in sorted(self._asked_told.items())]

    def is_spent(self) -> bool:
        """Whether all of the record was asked for."""
        return not self._unasked and not any(self._told.values())

    def forget_unasked(self) -> None:
        """What was not asked for belongs to the run that is not gone on with."""
        with self._lock:
            self._only({*self.asked_names()})
            self._told.clear()

    # -- turns, checks, times --------------------------------------------------------------------------------------

    def told(self, kind: EventType, refuse_another: Callable[[Document], object] | None = None) -> Document | None:
        """What this lane was told the next time that it asked; None when it has come to what is new.

        `refuse_another` raises where that was told of something else: then it was not asked for.
        """
        with self._lock:
            place = (kind, self.lanes.current.path)
            kept = self._told.get(place)
            if kept and refuse_another is not None:
                refuse_another(kept[0])
            elif not kept and self.in_test:
                more = f"{kind}() is asked for once more than in the record"
                self.stop(Diverged(more, kind="new_call", lane=place[1]))
            if not kept:
                self.refuse_stopped()
            self._asked_told[place] = self._asked_told.get(place, 0) + 1
            return kept.popleft() if kept else None


STAYS_OPEN: Final = "The session stays open: bring back what it began with and start it again"
ADVICE: Final = f'{STAYS_OPEN}, or let it go on as a new run with on_divergence="fork"'
ENDED_ADVICE: Final = "The session has ended, and only answers what it recorded: what is new needs another id"


def said_by(event: Event, payloads: Payloads) -> Document:
    """What an event says beside its kind; nothing where that was erased."""
    if event.data is None:
        return {}
    try:
        said = payloads.get(event.data)
    except LookupError:
        return {}
    return said if isinstance(said, dict) else {}
