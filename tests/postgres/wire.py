"""PostgreSQL's protocol, as far as somebody between client and server must understand it: where messages end.

Version 3. A message is a byte that says its kind, a length of four bytes that counts itself, and a body; what a client
sends first has no kind. <https://www.postgresql.org/docs/current/protocol-message-formats.html>
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, TypeVar

T = TypeVar("T")

SSL_REQUEST: Final = 80877103
GSS_REQUEST: Final = 80877104
CANCEL_REQUEST: Final = 80877102
QUERY, SYNC, TERMINATE, PARSE = b"Q", b"S", b"X", b"P"
PARTS: Final = (PARSE, b"B", b"D", b"E", b"C")
"""Of a request that is not whole before its SYNC."""
READY: Final = b"Z"
IDLE: Final = b"I"
"""The body of READY where no transaction is open."""


class Message(NamedTuple):
    kind: bytes
    body: bytes

    @property
    def packed(self) -> bytes:
        return self.kind + struct.pack("!I", len(self.body) + 4) + self.body

    @property
    def asks(self) -> bool:
        """Whether the server answers it with a READY."""
        return self.kind in (QUERY, SYNC)


class Startup(NamedTuple):
    """What a client says first: a version and pairs of words, or a request with a number of its own."""

    code: int
    body: bytes

    @property
    def packed(self) -> bytes:
        return struct.pack("!II", len(self.body) + 8, self.code) + self.body

    @property
    def words(self) -> dict[str, str]:
        texts = self.body.rstrip(b"\0").decode().split("\0")
        return dict(zip(texts[::2], texts[1::2], strict=True))


async def read_message(reader: asyncio.StreamReader) -> Message:
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!I", head[1:])
    return Message(head[:1], await reader.readexactly(length - 4))


async def read_startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Startup:
    """The first message that is no question for encryption, which is answered with no."""
    while True:
        length, code = struct.unpack("!II", await reader.readexactly(8))
        startup = Startup(code, await reader.readexactly(length - 8))
        if code not in (SSL_REQUEST, GSS_REQUEST):
            return startup
        writer.write(b"N")


def error(code: str, text: str) -> Message:
    fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": text}
    return Message(b"E", "".join(f"{key}{value}\0" for key, value in fields.items()).encode() + b"\0")


def cut(writer: asyncio.StreamWriter) -> None:
    """End a connection also where a forked child has it too: closing alone would leave it open there."""
    if (own := writer.get_extra_info("socket")) is not None:
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)
    writer.close()


class Listener:
    """Takes connections at a port of the loopback, in a thread with an event loop of its own. Use it in a `with`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._clients: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self.loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()
        self._server = self.do(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = int(self._server.sockets[0].getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """In its loop; returns when it is done."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.do(self._end())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(30)
            self.loop.close()

    def cut_all(self) -> None:
        """Every connection that is there now."""
        self.do(self._cut_all())

    async def _cut_all(self) -> None:
        for writer in list(self._clients):
            cut(writer)

    async def _end(self) -> None:
        self._server.close()
        await self._cut_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one of the two has gone
        finally:
            self._clients.discard(writer)
            cut(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until it has gone."""
        raise NotImplementedError
