"""Threads for skills that are not async. They never keep the process from ending."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class SkillThreads:
    """Runs callables in daemon threads, reusing idle ones. A thread that hangs is left behind, not waited for."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Of a parent's threads a forked child has none."""
        self._idle: list[SimpleQueue[Job]] = []
        self._lock = threading.Lock()

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """A future of the running loop for the function's result; cancelling it does not stop the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        future.add_done_callback(look_at)
        context = contextvars.copy_context()
        with self._lock:
            queue = self._idle.pop() if self._idle else self._start()
        queue.put((lambda: context.run(function), future, loop))
        return future

    def _start(self) -> SimpleQueue[Job]:
        queue: SimpleQueue[Job] = SimpleQueue()
        threading.Thread(target=self._work, args=(queue,), daemon=True, name="reenact-skill").start()
        return queue

    def _work(self, queue: SimpleQueue[Job]) -> None:
        process = os.getpid()
        while True:
            function, future, loop = queue.get()
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:  # noqa: BLE001  # a skill may raise anything, SystemExit too
                error = raised
            leave_if_forked(process)
            with self._lock:
                self._idle.append(queue)
            tell(loop, future, result, error)
            del function, future, loop, result, error


THREADS = SkillThreads()
"""One for the process: a worker that makes run after run has as many threads as calls at the same time."""
os.register_at_fork(after_in_child=THREADS.forget)


def look_at(future: asyncio.Future[Any]) -> None:
    """A failure that nobody waits for any more is no news: its call was given up on."""
    if not future.cancelled():
        future.exception()


def leave_if_forked(process: int) -> None:
    """A child that a skill forked and let return is not the runtime: nothing of the parent may run twice."""
    if os.getpid() != process:
        os._exit(1)


def forked(process: int) -> str:
    """For whoever uses in a child what its parent has opened."""
    return (
        f"this session was opened in process {process}, of which this one is a fork: it goes on there alone; open "
        "another one here"
    )


def tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    def deliver() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(as_exception(error))

    try:
        loop.call_soon_threadsafe(deliver)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def as_exception(error: BaseException) -> BaseException:
    """asyncio treats these as its own business; for us they are a skill's failure like any other."""
    if issubclass(type(error), SystemExit | KeyboardInterrupt | StopIteration | GeneratorExit):
        wrapped = RuntimeError(f"the skill raised {type(error).__name__}")
        wrapped.__cause__ = error
        return wrapped
    return error
