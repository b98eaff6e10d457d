"""Coroutines of skills: they have a limit, and end when they are cancelled, also those that do not want to.

A coroutine runs in the task of its call, step by step, and each step is ours to make or not. So one that passes over
its cancellation is closed where it waits, and never runs again: no task of it is left, to keep a loop from closing. Two
kinds are beyond that, and need `isolation="process"`: one that never waits for anything, and what a skill starts beside
itself.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

from reenact.errors import TooManyFiles, UsageError

log = logging.getLogger("reenact.skills")

GRACE_S = 5.0
"""What a coroutine has to clean up after itself once it is cancelled."""

OUR_LOOPS: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
"""Loops in which nothing cancels a run within a step, but the skill that runs in it."""

T = TypeVar("T")


async def within(work: Coroutine[Any, Any, object], limit_s: float, name: str) -> object:
    """What `work` gives; TimeoutError when it takes longer. A timer is set only once it waits for something."""
    ends = asyncio.get_running_loop().time() + limit_s
    task = asyncio.current_task()
    assert task is not None
    rest = Rest(work, name, task)
    try:
        if (begun := rest.begin()) is not None:
            return begun.value
        async with asyncio.timeout_at(ends):
            return await rest
    finally:
        if rest.own_cancels and task.get_loop() in OUR_LOOPS:
            await rest.take_back()


class Rest:
    """The rest of a coroutine that has begun and waits for something."""

    def __init__(self, work: Coroutine[Any, Any, object], name: str, task: asyncio.Task[Any]) -> None:
        self._work = work
        self._waits_for: object = None
        self._name = name
        self._task = task
        self._before = task.cancelling()
        """How often the task had been cancelled when the coroutine began."""
        self.own_cancels = 0
        """How often the task was cancelled in a step of the coroutine: by itself in a loop of ours; in one of the host
        a signal may have done it."""
        self._first: asyncio.CancelledError | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._is_over = False

    def begin(self) -> StopIteration | None:
        """The first step; its end, where it was the last."""
        try:
            self._waits_for = self._step(partial(self._work.send, None))
        except StopIteration as done:
            return done
        return None

    def _step(self, advance: Callable[[], object]) -> object:
        before = self._task.cancelling()
        try:
            return advance()
        finally:
            self.own_cancels = max(0, self.own_cancels + self._task.cancelling() - before)

    async def take_back(self) -> None:
        """Its own cancellations end with the coroutine; one from outside comes through."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # one that was not delivered yet
        while self.own_cancels and self._is_owed:
            self.own_cancels -= 1
            self._task.uncancel()
        if self._is_owed:
            raise asyncio.CancelledError

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
                    waits_for = self._step(advance)
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


def new_loop() -> asyncio.AbstractEventLoop:
    """It takes three descriptors."""
    try:
        return asyncio.new_event_loop()
    except OSError as error:
        if error.errno not in TooManyFiles.numbers:
            raise
        raise TooManyFiles("no event loop can be made") from None


def run_to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives, in a loop of its own. A skill that stops the loop does not stop the run."""
    begun: list[asyncio.Task[T]] = []

    async def whole() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.append(task)
        return await to_its_end(work)

    with asyncio.Runner(loop_factory=new_loop) as runner, Interrupts(runner.get_loop(), begun):
        OUR_LOOPS.add(runner.get_loop())
        try:
            return runner.run(whole())
        except RuntimeError:
            if not begun or begun[0].done():
                raise
        while not begun[0].done():
            log.warning("a skill stopped the event loop that it runs in; the loop goes on")
            with suppress(RuntimeError):
                runner.get_loop().run_until_complete(begun[0])
        return begun[0].result()


class Interrupts:
    """Ctrl-C in a loop of ours: the first cancels the run between two steps, the second ends everything at once.

    As `asyncio.run` does it, but for "between two steps": there it may come within a step of a skill, and could not be
    told from a cancellation of the skill's own making.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, begun: Sequence[asyncio.Task[Any]]) -> None:
        self._loop = loop
        self._begun = begun
        self._count = 0
        self._is_ours = False

    def __enter__(self) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._heard)
            self._is_ours = True

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1 and self._begun and not self._begun[0].done():
            self._loop.call_soon_threadsafe(self._begun[0].cancel)
        else:
            raise KeyboardInterrupt

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._count and isinstance(error, asyncio.CancelledError):
            raise KeyboardInterrupt from None


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
    for task in others:  # reenact: ignore[RN206] all of them are cancelled, in whatever order
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


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """The synchronous front; inside a running loop use the async one."""
    if loop_is_running():
        work.close()
        raise UsageError("a loop is running in this thread: await the method that ends in _async instead")
    return run_to_its_end(work)


def loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
