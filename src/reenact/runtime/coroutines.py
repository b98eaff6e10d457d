"""Coroutines of skills: they have a limit, and end when they are cancelled, also those that do not want to.

A coroutine runs in the task of its call, step by step, and each step is ours to make or not. So one that passes over
its cancellation is closed where it waits, and never runs again: no task of it is left, to keep a loop from closing. Two
kinds are beyond that, and need `isolation="process"`: one that never waits for anything, and what a skill starts beside
itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

log = logging.getLogger("reenact.skills")

GRACE_S = 5.0
"""What a coroutine has to clean up after itself once it is cancelled."""

T = TypeVar("T")


async def within(work: Coroutine[Any, Any, object], limit_s: float, name: str) -> object:
    """What `work` gives; TimeoutError when it takes longer. A timer is set only once it waits for something."""
    ends = asyncio.get_running_loop().time() + limit_s
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        return done.value
    async with asyncio.timeout_at(ends):
        return await Rest(work, waits_for, name, task, before)


class Rest:
    """The rest of a coroutine that has begun and waits for something."""

    def __init__(
        self, work: Coroutine[Any, Any, object], waits_for: object, name: str, task: asyncio.Task[Any], before: int
    ) -> None:
        self._work = work
        self._waits_for = waits_for
        self._name = name
        self._task = task
        self._before = before
        """How often the task had been cancelled when the coroutine began."""
        self._first: asyncio.CancelledError | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._is_over = False

    def __await__(self) -> Generator[object, Any, object]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    self._work.close()
                    raise
                except asyncio.CancelledError as cancelled:
                    self._cancelled(cancelled)
                    advance = partial(self._work.throw, cancelled)
                except BaseException as raised:  # noqa: BLE001  # what is thrown in from outside is the coroutine's to handle
                    advance = partial(self._work.throw, raised)
                else:
                    advance = partial(self._work.send, sent)
                try:
                    waits_for = advance()
                except StopIteration as done:
                    return done.value
        finally:
            if self._patience is not None:
                self._patience.cancel()

    @property
    def _is_owed(self) -> bool:
        """A cancellation still counts. Those that a coroutine makes itself, for a limit within it, it takes back."""
        return self._task.cancelling() > self._before

    def _cancelled(self, cancelled: asyncio.CancelledError) -> None:
        if self._is_over:
            self._stop()
        elif self._patience is None and self._is_owed:
            self._first = cancelled
            self._patience = asyncio.get_running_loop().call_later(GRACE_S, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        if self._is_owed:
            self._is_over = True
            self._task.cancel()  # the only way to wake it

    def _stop(self) -> None:
        self._task.uncancel()
        log.warning(
            "skill %s went on for %g s after it was cancelled, and was stopped; let CancelledError through, or declare "
            'isolation="process"',
            self._name,
            GRACE_S,
        )
        try:
            self._work.close()
        except Exception as error:  # noqa: BLE001  # it refuses even that: it is left where it waits
            log.warning("skill %s could not be closed: %s", self._name, error)
        if self._is_owed:
            assert self._first is not None
            raise self._first
        raise TimeoutError(f"it went on for {GRACE_S:g} s after it had cancelled itself")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives, and no task left that would keep the loop from closing."""
    try:
        return await work
    finally:
        await leave_none_behind()


async def leave_none_behind() -> None:
    """Cancel what skills have started beside themselves; what does not end is named, and the loop forgets it."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return
    for task in others:
        task.cancel()
    _, deaf = await asyncio.wait(others, timeout=GRACE_S)
    for task in deaf:
        coroutine = task.get_coro()
        log.warning(
            "%s goes on after it was cancelled; nobody waits for it, and it ends with this process",
            getattr(coroutine, "__qualname__", coroutine),
        )
        # Before a loop closes it waits for every task that it knows of.
        asyncio._unregister_task(task)  # noqa: SLF001  # offered to those who extend asyncio
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # as the library's own gather does
