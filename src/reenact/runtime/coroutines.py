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
    """What `work` gives; TimeoutError when it takes longer. A timer is set only once it waits for something.

    A cancellation of the caller that the coroutine kept to itself comes to the caller at its next wait.
    """
    ends = asyncio.get_running_loop().time() + limit_s
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        return done.value
    rest, limit = Rest(work, waits_for, name), asyncio.timeout_at(ends)
    try:
        async with limit:
            return await rest
    except asyncio.CancelledError:
        rest.cancellations = 0
        raise
    finally:
        if rest.cancellations > limit.expired():
            cancel_again()


def cancel_again() -> None:
    """As often as it was asked for, so that whoever asked still knows it as his own."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    task.cancel()


class Rest:
    """The rest of a coroutine that has begun and waits for something."""

    def __init__(self, work: Coroutine[Any, Any, object], waits_for: object, name: str) -> None:
        self._work = work
        self._waits_for = waits_for
        self._name = name
        self.cancellations = 0
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

    def _cancelled(self, cancelled: asyncio.CancelledError) -> None:
        if self._is_over:
            self._close()
            assert self._first is not None
            raise self._first
        self.cancellations += 1
        if self._first is None:
            self._first = cancelled
            task = asyncio.current_task()
            assert task is not None
            self._patience = asyncio.get_running_loop().call_later(GRACE_S, self._lose_patience, task)

    def _lose_patience(self, task: asyncio.Task[Any]) -> None:
        self._is_over = True
        task.cancel()  # the only way to wake it

    def _close(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
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
