"""Through what a store file is read: a few connections for all threads and sessions of a process.

Reading never waits for a writer, and a thread that has read leaves nothing behind. With the one that writes a store has
four connections at most.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import WeakSet

from reenact.errors import StoreError, StoreGone, StoreUnavailable
from reenact.store.compression import Codec
from reenact.store.sqlite.connection import Connection, open_beside

T = TypeVar("T")

READERS = 3
LOOK_S = 0.1
"""How often one that waits for a connection looks whether it may open one instead."""


class Readers:
    """Connections that read the file that `writer` has open, opened as they are needed.

    `connect` opens one of a store that is only read.
    """

    def __init__(self, writer: Connection, connect: Callable[[str], Connection] | None = None) -> None:
        self._writer = writer
        self._connect = connect
        self._process = os.getpid()
        self._free: SimpleQueue[Connection] = SimpleQueue()
        self._all: WeakSet[Connection] = WeakSet()
        """Weak: one that an interrupt took from its reader is closed, and another may be opened in its place."""
        self._opening = threading.Lock()
        self._codec, self._unpacking = Codec(), threading.Lock()
        self._is_closed = False

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return self._lend(lambda reader: reader.query(sql, parameters))

    def unpack(self, stored: bytes) -> bytes:
        with self._unpacking:
            return self._codec.unpack(stored)

    def envelope(self, stored: bytes) -> bytes:
        return self._lend(lambda reader: reader.envelope(stored))

    def _lend(self, act: Callable[[Connection], T]) -> T:
        if self._process != os.getpid():
            self._writer.check_process()
        try:
            reader = self._free.get_nowait()
        except Empty:
            reader = self._another()
        try:
            return act(reader)
        finally:
            self._free.put(reader)

    def _another(self) -> Connection:
        """A new one while there are few; else the first that is given back."""
        while True:
            with self._opening:
                if self._is_closed:
                    raise StoreUnavailable(f"{self._writer.path} was closed here; open it again")
                if len(self._all) < READERS:
                    try:
                        return self._opened()
                    except StoreError:
                        if not self._all:  # else those that there are will do
                            raise
            with suppress(Empty):
                return self._free.get(timeout=LOOK_S)

    def _opened(self) -> Connection:
        path, writer = self._writer.path, self._writer
        if self._connect is not None:
            reader = self._connect(path)
        else:
            writer.check_files()  # else SQLite would begin another log
            reader = Connection(path, open_beside(path))
            if not reader.files.are_those_of(writer.files):
                reader.close()
                raise StoreGone(writer.files.lost(""))
        self._all.add(reader)
        return reader

    def close(self) -> None:
        if self._process != os.getpid():
            return
        with self._opening:
            self._is_closed = True
            for reader in list(self._all):
                reader.close()
