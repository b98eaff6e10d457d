"""A loop in a thread of its own, for code that is not async. No signal cuts what it does in half.

Signal handlers run in the main thread, between any two of its steps, and what they raise may come in the middle of
anything, and again while that is cleared up. So a caller's thread does nothing here but hand over work and wait, and
what was begun is brought to its end in the loop's thread, which no handler reaches: when it is told, or when it sees
that the block is over, whatever was raised in it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from _thread import start_new_thread
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import ReferenceType, ref

from reenact.errors import StoreError, TooManyFiles, UsageError
from reenact.runtime.effects.coroutines import GRACE_S, OUR_LOOPS, leave_none_behind, new_loop
from reenact.runtime.effects.threads import forked

T = TypeVar("T")
Leave = Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]

LOOK_S: Final = 0.2
"""How often a loop looks whether anybody is still in its block, and a caller whether its loop is still there."""
ENDED: Final = "the block of this session has ended; open another one, or this one again with resume=…"

log = logging.getLogger("reenact.session")


class Block(Protocol):
    """What a `with` statement enters."""

    leash: ReferenceType[Leave] | None


B = TypeVar("B", bound=Block)


class Leaving(Generic[B]):
    """`__exit__`, as a `with` statement looks it up before it enters, and holds it until it is over.

    So when it is gone nobody is in the block any more. That is so too where a signal came right at the end of the
    block, or in `__enter__`: then `__exit__` was never called, or not one step of it was done.
    """

    def __init__(
        self,
        leave: Callable[[B, type[BaseException] | None, BaseException | None, TracebackType | None], None],
    ) -> None:
        self._leave = leave

    def __get__(self, block: B | None, owner: type[B]) -> Leave:
        if block is None:
            return self._leave  # type: ignore[return-value]  # as a function of a class: for contextlib.ExitStack
        found = partial(self._leave, block)
        if block.leash is None or block.leash() is None:
            block.leash = ref(found)
        return found


class Job(Generic[T]):
    """What a thread waits for, as far as the loop has come with it."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._task: asyncio.Task[T] | None = None
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._given_up = False
        self.is_over = False
        self.by = threading.get_ident()
        self.ended = threading.Lock()  # and no Event: that one's own lock stays locked if its wait is cut at its end
        self.ended.acquire()

    def begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[T] | None:
        if self._given_up:
            self._end()
            return None
        self._task = loop.create_task(self._make())
        self._task.add_done_callback(self._end)
        return self._task

    def _end(self, task: asyncio.Task[T] | None = None) -> None:
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
        elif task is not None and not task.cancelled():
            self._result.append(task.result())
        self._task = None  # it goes here: what a signal raises in the course of that would be lost
        self.is_over = True
        self.ended.release()

    def cancel(self) -> None:
        """In the loop."""
        self._given_up = True
        if self._task is not None:
            self._task.cancel()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        if not self._result:
            raise concurrent.futures.CancelledError
        return self._result[0]


class LoopThread:
    """A loop that works for threads which wait. `forsake` is awaited at its end, whatever came before."""

    def __init__(self, forsake: Callable[[], Coroutine[Any, Any, None]], leash: ReferenceType[Any] | None) -> None:
        self._forsake = forsake
        self.leash = leash
        self._process = os.getpid()
        self._starter: int | None = None
        self._ident: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._why_not: Exception | None = None
        self._ends = False
        self._jobs: dict[asyncio.Task[Any], Job[Any]] = {}
        self._begun, self._over = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self._over.acquire()

    # -- in the caller's thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        # By a thread that no signal comes to: one that is cut while it starts another leaves half of that behind.
        self._starter = start_new_thread(self._start, ())
        self._begun.acquire()
        if self._why_not is not None:
            if isinstance(self._why_not, TooManyFiles):
                raise self._why_not
            raise StoreError(f"no thread or no loop can be started for a session: {self._why_not}")

    def do(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work gives. What breaks off the wait (Ctrl-C, an alarm) cancels it, and comes through at its end."""
        self.refuse_fork()
        if threading.get_ident() == self._ident:
            raise UsageError(
                "this runs in the loop of the session that it calls, and would wait for itself: an async skill, a "
                "listener or a supervisor cannot call its own session; let its caller do that"
            )
        job = Job(make)
        try:
            self._hand_over(job)
            while not job.ended.acquire(timeout=LOOK_S):
                self._refuse_over(job)
        except BaseException:
            self._give_up(job)
            raise
        return job.result()

    def _hand_over(self, job: Job[Any]) -> None:
        if self._ends or self._loop is None:
            raise UsageError(ENDED)
        try:
            self._loop.call_soon_threadsafe(self._begin, job)
        except RuntimeError:  # closed meanwhile
            raise UsageError(ENDED) from None

    def _refuse_over(self, job: Job[Any]) -> None:
        if not self._over.locked() and not job.is_over:  # it ended before it came to this job
            raise UsageError(ENDED)

    def _give_up(self, job: Job[Any]) -> None:
        if self._loop is not None and not job.is_over:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(job.cancel)
                job.ended.acquire(timeout=GRACE_S)

    def stop(self) -> None:
        """Wait until nothing is left of it."""
        self._ends = True
        if self._starter is None or self.is_forked:
            return
        self.wait_for_end()

    def wait_for_end(self, limit_s: float = -1) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._look)
        if self._over.acquire(timeout=limit_s):
            self._over.release()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that it works in."""
        return self._process != os.getpid()

    def refuse_fork(self) -> None:
        if self.is_forked:
            raise UsageError(forked(self._process))

    # -- in its own thread -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, daemon=True, name="reenact-session").start()
        except RuntimeError as error:
            self._why_not = error
            self._begun.release()
            self._over.release()

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            self._loop = loop = new_loop()
        except (OSError, TooManyFiles) as error:
            self._why_not = error
            self._begun.release()
            self._over.release()
            return
        OUR_LOOPS.add(loop)  # signals come to the main thread
        try:
            if not self.is_abandoned:
                end_abandoned()
            LOOPS.add(self)
            loop.call_soon(self._look)
            self._begun.release()
            self._go_on(lambda: self._ends)
            last = loop.create_task(self._last())
            last.add_done_callback(lambda _: loop.stop())
            self._go_on(last.done)
        finally:
            loop.close()
            OUR_LOOPS.discard(loop)
            LOOPS.discard(self)
            self._over.release()

    def _go_on(self, until: Callable[[], bool]) -> None:
        """A skill that stops the loop does not stop the session, nor does what ends a process."""
        assert self._loop is not None
        while not until():
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001  # SystemExit: who waits for the task is told of it
                log.warning("%s was raised in the loop of a session, which goes on", type(error).__name__)

    def _begin(self, job: Job[Any]) -> None:
        assert self._loop is not None
        task = job.begin(self._loop)
        if task is not None:
            self._jobs[task] = job
            task.add_done_callback(self._jobs.pop)

    def cancel_of(self, thread: int) -> None:
        """What a thread gave up on that does not wait any more; a signal may have kept it from saying so."""
        current = asyncio.current_task()
        for task, job in list(self._jobs.items()):
            if job.by == thread and task is not current:
                job.cancel()

    @property
    def is_abandoned(self) -> bool:
        return self._ends or (self.leash is not None and self.leash() is None)

    def _look(self) -> None:
        assert self._loop is not None
        if self.is_abandoned:
            self._ends = True
            self._loop.stop()
        else:
            self._loop.call_later(LOOK_S, self._look)

    async def _last(self) -> None:
        """Give back all that is held."""
        under_way = list(self._jobs.items())
        for _, job in under_way:
            job.cancel()
        if under_way:
            await asyncio.wait([task for task, _ in under_way], timeout=2 * GRACE_S)
        try:
            await self._forsake()
        except Exception as error:  # noqa: BLE001  # nobody waits for it any more
            log.warning("a session that was left could not be given back: %s", error)
        await leave_none_behind()


LOOPS: set[LoopThread] = set()
"""Those of this process."""
os.register_at_fork(after_in_child=LOOPS.clear)


def end_abandoned() -> None:
    """What nobody is in any more is given back before something new is begun, which may want the same."""
    for other in tuple(LOOPS):  # reenact: ignore[RN206] all of them are ended, in whatever order
        if other.is_abandoned:
            other.wait_for_end(GRACE_S)
