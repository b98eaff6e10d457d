"""The order of answers: a call is answered once all were that returned before it, and all was asked for that was made.

From the record every answer is there at once. A task that fails then, or ends, would end those beside it (a task group,
a race of several) before they have asked for what they did, and the program would go on as if they had done nothing. So
would one that takes what is ready first, or keeps results as they come, take them in another order.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import insort
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Final

from reenact.runtime.session.answering.calls import LATER, RecordedCall
from reenact.runtime.session.answering.lanes import lane_of

PATIENCE_S: Final = 10.0
"""How long a call waits for others to ask for what comes before it."""
POLL_S: Final = 0.02
AT_ONCE: Final = 8
"""So many rounds of the loop are waited before any time is: tasks that are there ask in their first."""


class Turns:
    """Recorded calls in the order in which they were made, and in that in which they returned."""

    def __init__(self) -> None:
        self._made: list[RecordedCall] = []
        self._returned: list[RecordedCall] = []
        self._first_made = self._first_returned = 0
        """Before these all were asked for, or were answered; or they are not waited for any more."""
        self._patience_s = PATIENCE_S

    def add(self, call: RecordedCall) -> None:
        """A read that has a name of its host's is in nobody's way, whether or not it is asked for again."""
        if call.is_write or lane_of(call.name) is not None:
            self._made.append(call)
            if call.returned < LATER and call.went_on is None:
                insort(self._returned, call, key=position)

    def only(self, names: Collection[str]) -> None:
        self._made, self._first_made = [call for call in self._made if call.name in names], 0
        self._returned, self._first_returned = [call for call in self._returned if call.name in names], 0

    def has_come(self, call: RecordedCall | None) -> bool:
        """Whether nothing is missing before this call returns; None is a new one, behind all recorded writes."""
        made, first = self._made, self._first_made  # threads may ask at the same time
        while first < len(made) and made[first].is_asked:
            first += 1
        self._first_made = first
        if call is None:
            return not any(each.is_write and not each.is_asked for each in islice(made, first, None))
        return (first >= len(made) or made[first].begun > call.returned) and self._is_next(call)

    def _is_next(self, call: RecordedCall) -> bool:
        """Whether all that returned before it were answered."""
        returned, first = self._returned, self._first_returned
        while first < len(returned) and returned[first].is_answered:
            first += 1
        self._first_returned = first
        return first >= len(returned) or position(returned[first]) >= position(call)

    async def wait(self, call: RecordedCall | None, *, by_threads: bool) -> None:
        """Until it has come, or nobody is there who could ask for what is missing, or that takes too long."""
        try:
            await self._wait(call, by_threads=by_threads)
        finally:
            if call is not None and not by_threads:  # a thread says so itself, once it has the answer
                call.is_answered = True

    async def _wait(self, call: RecordedCall | None, *, by_threads: bool) -> None:
        until = time.monotonic() + self._patience_s
        pauses, before = pauses_s(), self._progress()
        while not self.has_come(call):
            pause = next(pauses)
            if pause and not others_may_ask(by_threads=by_threads):
                return
            if time.monotonic() > until:
                self._give_up(call)
                return
            await asyncio.sleep(pause)
            if before != (before := self._progress()):
                pauses = pauses_s()

    def _progress(self) -> tuple[int, int]:
        return self._first_made, self._first_returned

    def _give_up(self, call: RecordedCall | None) -> None:
        """This program does not ask for them any more. All that it costs such a one is the time of the first."""
        last = LATER if call is None else call.returned
        while self._first_made < len(self._made) and self._made[self._first_made].begun <= last:
            self._first_made += 1
        while self._first_returned < len(self._returned) and self._returned[self._first_returned].returned <= last:
            self._first_returned += 1
        self._patience_s /= 10


def position(call: RecordedCall) -> tuple[int, str]:
    """When it returned: the commit, and of those in one the id of the effect, since these grow as they are made."""
    effect = call.trace.effect
    return call.returned, "" if effect is None else effect.tool_effect_id


def pauses_s() -> Iterator[float]:
    growing: Iterable[float] = (0.001 * 2**times for times in range(5))
    return chain(repeat(0.0, AT_ONCE), growing, repeat(POLL_S))


def others_may_ask(*, by_threads: bool) -> bool:
    """Whether anybody but whoever asks, a task or a thread, is there to ask for something too."""
    if by_threads:
        return sum(not thread.name.startswith("reenact-") for thread in threading.enumerate()) > 1
    return len(asyncio.all_tasks()) > 1
