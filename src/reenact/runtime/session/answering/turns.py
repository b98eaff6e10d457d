"""The order of answers: a call is answered once all has been asked for that was under way when it returned.

From the record every answer is there at once. A task that fails then, or ends, would end those beside it (a task group,
a race of several) before they have asked for what they did, and the program would go on as if they had done nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
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
    """Recorded calls in the order in which they were made."""

    def __init__(self) -> None:
        self._calls: list[RecordedCall] = []
        self._first = 0
        """Before this one all were asked for, or are not waited for any more."""
        self._patience_s = PATIENCE_S

    def add(self, call: RecordedCall) -> None:
        """A read that has a name of its host's is in nobody's way, whether or not it is asked for again."""
        if call.is_write or lane_of(call.name) is not None:
            self._calls.append(call)

    def only(self, names: Collection[str]) -> None:
        self._calls, self._first = [call for call in self._calls if call.name in names], 0

    def has_come(self, call: RecordedCall | None) -> bool:
        """Whether nothing is missing before this call returns; None is a new one, behind all recorded writes."""
        calls, first = self._calls, self._first  # threads may ask at the same time
        while first < len(calls) and calls[first].is_asked:
            first += 1
        self._first = first
        if call is None:
            return not any(each.is_write and not each.is_asked for each in islice(calls, first, None))
        return first >= len(calls) or calls[first].begun > call.returned

    async def wait(self, call: RecordedCall | None, *, by_threads: bool) -> None:
        """Until it has come, or nobody is there who could ask for what is missing, or that takes too long."""
        until = time.monotonic() + self._patience_s
        pauses = pauses_s()
        while not self.has_come(call) and others_may_ask(by_threads=by_threads):
            if time.monotonic() > until:
                self._give_up(call)
                return
            await asyncio.sleep(next(pauses))

    def _give_up(self, call: RecordedCall | None) -> None:
        """This program does not ask for them any more. All that it costs such a one is the time of the first."""
        returned = LATER if call is None else call.returned
        while self._first < len(self._calls) and self._calls[self._first].begun <= returned:
            self._first += 1
        self._patience_s /= 10


def pauses_s() -> Iterator[float]:
    growing: Iterable[float] = (0.001 * 2**times for times in range(5))
    return chain(repeat(0.0, AT_ONCE), growing, repeat(POLL_S))


def others_may_ask(*, by_threads: bool) -> bool:
    """Whether anybody but whoever asks, a task or a thread, is there to ask for something too."""
    if by_threads:
        return sum(not thread.name.startswith("reenact-") for thread in threading.enumerate()) > 1
    return len(asyncio.all_tasks()) > 1
