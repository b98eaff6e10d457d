"""Through what a store file is read: a few connections for all threads and sessions of a process.

Reading never waits for a writer, and a thread that has read leaves nothing behind. With the one that writes a store has
four connections at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from typing import Any, TypeVar

from reenact.errors import StoreError, StoreGone, StoreUnavailable
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.opened.files import open_beside
from reenact.store.sqlite.opened.shared import OpenReaders

T = TypeVar("T")

READERS = 3
LOOK_S = 0.1
"""How often one that waits for a connection looks whether it may open one instead."""


class Readers:
    """How one store reads the file that `writer` has open: through connections that are opened as they are needed.

    They are those of all who have the file open in this process. `connect` opens one of a store that is only read,
    which has its own.
    """

    def __init__(self, writer: Connection, connect: Callable[[str], Connection] | None = None) -> None:
        self._writer = writer
        self._connect = connect
        self._process = os.getpid()
        self._open = writer.file.readers if connect is None else OpenReaders()
        self._is_closed = False

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return self._lend(lambda reader: reader.query(sql, parameters))

    def unpack(self, stored: bytes) -> bytes:
        with self._open.unpacking:
            return self._open.codec.unpack(stored)

    def envelope(self, stored: bytes) -> bytes:
        return self._lend(lambda reader: reader.envelope(stored))

    def _lend(self, act: Callable[[Connection], T]) -> T:
        if self._process != os.getpid():
            self._writer.check_process()
        if self._is_closed:
            raise self._closed()
        free = self._open.free
        try:
            reader = free.get_nowait()
        except Empty:
            reader = self._another()
        try:
            return act(reader)
        finally:
            free.put(reader)

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._writer.path} was closed here; open it again")

    def _another(self) -> Connection:
        """A new one while there are few; else the first that is given back."""
        shared = self._open
        while True:
            with shared.opening:
                if self._is_closed or shared.is_closed:
                    raise self._closed()
                if len(shared.all) < READERS:
                    try:
                        return self._opened()
                    except StoreError:
                        if not shared.all:  # else those that there are will do
                            raise
            with suppress(Empty):
                return shared.free.get(timeout=LOOK_S)

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
        self._open.all.add(reader)
        return reader

    def close(self) -> None:
        if self._process != os.getpid():
            return
        self._is_closed = True
        if self._connect is not None:
            self._open.close()
