"""A fork waits until no other thread is inside SQLite, imports a module, or is about to be gone.

SQLite has locks of the whole process, and Python one for each module that is being imported. A child that is forked
while another thread holds one has the lock, and not the thread that gives it back: it would wait for ever with the
first thing that it opens, or imports. So it is with the lock of OpenSSL that each thread takes once more when it has
ended, and each new thread that hashes anything. What takes too long is not waited for, so a fork is late by two seconds
at most.
"""

from __future__ import annotations

import _frozen_importlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import WeakSet

PATIENCE_S: Final = 2.0
LOOK_S: Final = 0.001
EXIT_S: Final = 0.05
"""A thread that Python does not know, and that is there for longer, is no thread that ends."""
THREADS: Final = Path("/proc/self/task")


class UsesSqlite(Protocol):
    """Whatever enters SQLite under a lock of its own."""

    @property
    def lock(self) -> Any: ...


class Forks:
    """Whom a fork waits for: `users`, each by its lock, and who is `inside` for once."""

    def __init__(self) -> None:
        self.users: WeakSet[UsesSqlite] = WeakSet()
        self._begin_again()

    def _begin_again(self) -> None:
        self._gate = threading.RLock()  # what is collected while it is held may want to enter too
        self._inside: set[threading.Lock] = set()
        self._held: dict[int, list[Any]] = {}
        """By thread that forks. One that could not wait any longer for another takes nothing from it."""
        self._foreign: set[int] = set()
        """Threads that Python has not started, by number."""
        self._had: list[Any] = []

    def join(self, user: UsesSqlite) -> None:
        """From here on a fork waits for it too, as long as it is there."""
        with self._gate:  # a set that grows while somebody walks over it breaks off the walk
            self.users.add(user)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Around what opens or closes a database, when there is nothing that others use."""
        busy = threading.Lock()
        busy.acquire()  # at once: nobody else knows it yet
        try:
            with self._gate:
                self._inside.add(busy)
            yield
        finally:  # wherever a signal cuts this
            self._inside.discard(busy)
            busy.release()

    def wait(self) -> None:
        """Before a fork: nobody enters from here on, and one thread forks at a time.

        What is looked at last gives no other thread its turn, so it is still true when the fork comes.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            wait_for_imports(until)
            held = self._held.setdefault(threading.get_ident(), [])
            take([self._gate], until, held)
            take(self._inside.copy(), until, held)
            take([user.lock for user in self.users], until, held)
            self._wait_for_exits()
            if not imported_elsewhere() or time.monotonic() >= until:
                break
            self.go_on()  # an import may need what is held

    def _wait_for_exits(self) -> None:
        until = time.monotonic() + EXIT_S
        while (unknown := unknown_threads()) - self._foreign and time.monotonic() < until:
            time.sleep(LOOK_S / 2)
        self._foreign = unknown

    def go_on(self) -> None:
        """After it, in the parent."""
        held = self._held.pop(threading.get_ident(), [])
        while held:
            held.pop().release()

    def begin_again(self) -> None:
        """After it, in the child, which has no other threads and uses nothing that its parent has open."""
        had = self._held.get(threading.get_ident(), []).copy()
        self.go_on()
        self.users.clear()
        self._begin_again()
        self._had = had

    def was_waited_for(self, user: UsesSqlite) -> bool:
        """In a child: whether no other thread was inside `user` when it was forked."""
        return any(lock is user.lock for lock in self._had)


def take(locks: Iterable[Any], until: float, held: list[Any]) -> None:
    """Those that are free in time, each noted at once: a signal may end this anywhere."""
    for lock in locks:
        if lock.acquire(timeout=max(0.0, until - time.monotonic())):
            held.append(lock)  # noqa: PERF401  # what it has so far is kept


def imported_elsewhere() -> bool:
    """Whether another thread is in the middle of importing a module. Python tells nobody; its table of locks does."""
    own = threading.get_ident()
    locks = [known() for known in list(getattr(_frozen_importlib, "_module_locks", {}).values())]
    return any(getattr(lock, "owner", None) not in (None, own) for lock in locks)


def wait_for_imports(until: float) -> None:
    while imported_elsewhere() and time.monotonic() < until:
        time.sleep(LOOK_S)


def unknown_threads() -> set[int]:
    """Those of this process that Python has forgotten, since they ended, or never knew; none where nobody tells."""
    try:
        there = {int(name) for name in os.listdir(THREADS)}  # noqa: PTH208  # names alone
    except (OSError, ValueError):
        return set()
    return there - {thread.native_id or 0 for thread in threading.enumerate()}


FORKS = Forks()
os.register_at_fork(before=FORKS.wait, after_in_parent=FORKS.go_on, after_in_child=FORKS.begin_again)
