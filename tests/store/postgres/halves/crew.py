"""Processes that each have a store open, and do what they are told."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Self

from reenact.store.open import open_store
from reenact.store.postgres.opened import database
from reenact.store.postgres.store import PostgresStore

PATIENCE_S = 60.0
"""That many processes on few cores do not give up."""
Act = Callable[[PostgresStore, int, str], str]
"""(store, which of the processes, what it is about) → what came of it"""


class Member:
    """One of them."""

    def __init__(self, number: int) -> None:
        self._line, other = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                serve(number, other)
            finally:
                os._exit(0)
        other.close()

    def open(self, url: str) -> None:
        self._line.send(url)

    def start(self, act: Act, about: str) -> None:
        self._line.send((act, about))

    def is_done(self) -> bool:
        return self._line.poll()

    def result(self) -> str:
        return str(self._line.recv())

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._line.close()


def serve(number: int, line: Connection) -> None:
    database.TRYING_S = PATIENCE_S
    store = open_store(line.recv())
    assert isinstance(store, PostgresStore)
    while True:
        act, about = line.recv()
        try:
            line.send(act(store, number, about))
        except BaseException as error:
            traceback.print_exc()
            line.send(f"{type(error).__name__}: {error}")


class Crew:
    """Begin it before there are threads, which a forked process would lack. Use it in a `with`."""

    def __init__(self, count: int) -> None:
        self.members = [Member(number) for number in range(count)]

    def open(self, first: str, others: str) -> None:
        """The store: at a URL of its own in the first of them."""
        for number, member in enumerate(self.members):
            member.open(others if number else first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.end()
