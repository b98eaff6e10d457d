"""A transaction pooler: each transaction of a client is served by another backend than the one before.

What every pooler of this kind takes from a client, this one takes too: settings and prepared statements of a session
stay behind with a backend and are met by whoever gets it next; startup options are refused; who goes in the middle of a
transaction has it rolled back. Clients are not asked for a password.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import pq

from tests.postgres.server import Server
from tests.postgres.wire import (
    CANCEL_REQUEST,
    IDLE,
    PARTS,
    READY,
    TERMINATE,
    Listener,
    Message,
    cut,
    error,
    read_message,
    read_startup,
)

KNOWN_WORDS: Final = ("user", "database", "client_encoding", "datestyle", "timezone", "application_name")
TOLD: Final = ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone", "integer_datetimes",
               "standard_conforming_strings")  # fmt: skip


class Backend:
    """A connection to the server, past its login; the bytes of its socket go to and fro as they are."""

    def __init__(self, connection: pq.PGconn) -> None:
        self.connection = connection
        self.pid = connection.backend_pid
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    @classmethod
    async def opened(cls, server: Server, role: str, database: str) -> Backend:
        words = (
            f"host={server.home} port={server.port} user={role} dbname={database} sslmode=disable gssencmode=disable"
        )
        connection = await asyncio.to_thread(pq.PGconn.connect, words.encode())
        if connection.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(connection.get_error_message())
        backend = cls(connection)
        own = socket.socket(fileno=os.dup(connection.socket))
        backend.reader, backend.writer = await asyncio.open_unix_connection(sock=own)
        return backend

    def end(self) -> None:
        cut(self.writer)
        self.connection.finish()


class Pool:
    """The backends of one role in one database; whoever waited longest gets the one that rested longest."""

    def __init__(self, server: Server, role: str, database: str, size: int) -> None:
        self._what = (server, role, database)
        self._room = size
        self._idle: deque[Backend] = deque()
        self._changed = asyncio.Condition()

    async def take(self) -> Backend:
        async with self._changed:
            await self._changed.wait_for(lambda: self._idle or self._room)
            if not self._room:
                return self._idle.popleft()
            self._room -= 1
        try:
            return await Backend.opened(*self._what)
        except BaseException:
            await self._make_room()
            raise

    async def give_back(self, backend: Backend) -> None:
        async with self._changed:
            self._idle.append(backend)
            self._changed.notify()

    async def discard(self, backend: Backend) -> None:
        backend.end()
        await self._make_room()

    async def _make_room(self) -> None:
        async with self._changed:
            self._room += 1
            self._changed.notify()

    def end(self) -> None:
        while self._idle:
            self._idle.pop().end()


@dataclass
class Client:
    writer: asyncio.StreamWriter
    pool: Pool
    backend: Backend | None = None
    asked: int = 0
    """How many answers are not there yet."""
    is_asking: bool = False
    """The beginning of a request is with the backend, its end is not."""


class Pooler(Listener):
    """In front of `server`, with so many backends for each role and database. `url_of` gives a URL that leads here."""

    def __init__(self, server: Server, *, backends: int = 2) -> None:
        self._server_behind, self._size = server, backends
        self._pools: dict[tuple[str, str], Pool] = {}
        self._by_key: dict[tuple[int, int], Client] = {}
        self.transactions = 0
        """That were served."""
        super().__init__()

    def url_of(self, url: str) -> str:
        """The same by way of this pooler."""
        return by_way_of(url, self.port)

    async def _end(self) -> None:
        await super()._end()
        for pool in self._pools.values():
            pool.end()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await read_startup(reader, writer)
        if startup.code == CANCEL_REQUEST:
            await self._cancel(*struct.unpack("!II", startup.body))
            return
        if unknown := sorted(set(startup.words) - set(KNOWN_WORDS)):
            writer.write(error("08P01", f"unsupported startup parameter: {unknown[0]}").packed)
            return
        name = (startup.words["user"], startup.words.get("database", startup.words["user"]))
        pool = self._pools.setdefault(name, Pool(self._server_behind, *name, self._size))
        try:
            first = await pool.take()
        except psycopg.OperationalError as problem:
            writer.write(error("08006", str(problem)).packed)
            return
        key = (first.pid, len(self._by_key) + 1)
        writer.write(greeting(first.connection, key))
        await pool.give_back(first)
        self._by_key[key] = client = Client(writer, pool)
        await self._serve_client(reader, client)

    async def _serve_client(self, reader: asyncio.StreamReader, client: Client) -> None:
        answering: asyncio.Task[None] | None = None
        try:
            while (message := await read_message(reader)).kind != TERMINATE:
                if client.backend is None:
                    client.backend = await client.pool.take()
                    answering = asyncio.ensure_future(self._answer(client, client.backend))
                client.asked += message.asks
                client.is_asking = message.kind in PARTS
                client.backend.writer.write(message.packed)
                await client.backend.writer.drain()
        finally:
            if answering is not None and not answering.done():
                answering.cancel()
            if client.backend is not None:  # it went in the middle of a transaction
                await client.pool.discard(client.backend)

    async def _answer(self, client: Client, backend: Backend) -> None:
        """Until the transaction has ended; then the backend is free for others."""
        try:
            while True:
                message = await read_message(backend.reader)
                is_over = False
                if message.kind == READY:
                    client.asked -= 1
                    is_over = client.asked == 0 and not client.is_asking and message.body == IDLE
                if is_over:
                    client.backend = None
                    self.transactions += 1
                    await client.pool.give_back(backend)
                client.writer.write(message.packed)
                if is_over:
                    return
                await client.writer.drain()
        except (OSError, asyncio.IncompleteReadError):  # the server has gone
            cut(client.writer)

    async def _cancel(self, pid: int, secret: int) -> None:
        client = self._by_key.get((pid, secret))
        if client is not None and client.backend is not None:
            await asyncio.to_thread(client.backend.connection.get_cancel().cancel)


def greeting(connection: pq.PGconn, key: tuple[int, int]) -> bytes:
    """What a client is told when it is let in."""
    told = [Message(b"R", struct.pack("!I", 0))]
    for name in TOLD:
        value = connection.parameter_status(name.encode()) or b""
        told.append(Message(b"S", name.encode() + b"\0" + value + b"\0"))
    told += [Message(b"K", struct.pack("!II", *key)), Message(READY, IDLE)]
    return b"".join(message.packed for message in told)


def by_way_of(url: str, port: int) -> str:
    """The same database, reached at another port of this machine."""
    return re.sub(r"@127\.0\.0\.1:\d+/", f"@127.0.0.1:{port}/", url)
