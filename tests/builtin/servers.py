"""Servers on loopback that behave as told, well or badly. Each runs in a thread of its own and ends with its test."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Answers every request with `behaviour`, one request per connection, and keeps what it was asked."""

    behaviour: Behaviour
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    greeting: bytes = b""
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """As `allow_hosts` writes it."""
        return f"{self.host}:{self.port}"

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self._stop = asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._handle, self.host, 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        writer.write(self.greeting)
        try:
            request = await read_request(reader)
            self.requests.append(request)
            await self.behaviour(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, which is what some tests are about
        finally:
            self._open.discard(task)
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body)


def answer(
    status: int = 200, body: bytes = b"", *, headers: dict[str, str] | None = None, length: int | None = None
) -> Behaviour:
    """The same response to every request. `length` may lie."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        fields = {"content-length": str(len(body) if length is None else length), **(headers or {})}
        head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(head.encode("latin-1") + b"\r\n" + (b"" if request.method == "HEAD" else body))
        await writer.drain()

    return behave


def by_path(**paths: Behaviour) -> Behaviour:
    """Another behaviour for each path without its slash."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        name = request.target.partition("?")[0].strip("/")
        await paths[name](request, writer)

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """The first request gets the first behaviour, and so on; the last one stays."""
    rest = list(behaviours)

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await (rest.pop(0) if len(rest) > 1 else rest[0])(request, writer)

    return behave


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await asyncio.Event().wait()


async def drip(request: Request, writer: asyncio.StreamWriter) -> None:
    """Sends a byte now and then, so that no single read ever takes long."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


async def reset_half_way(request: Request, writer: asyncio.StreamWriter) -> None:
    """Sends half of a body, then a TCP reset."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    await writer.drain()
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    writer.transport.abort()


async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
    """A body without an end, in chunks."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    while True:
        writer.write(chunk)
        await writer.drain()


def unused_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
