"""A proxy that breaks at a given place: it drops a reply, loses a request, holds one, falls silent, or answers late.

It counts requests: what a client sends up to where the server has to answer (a simple query, or a Sync).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tests.postgres.wire import (
    CANCEL_REQUEST,
    PARSE,
    PARTS,
    QUERY,
    READY,
    Listener,
    Message,
    cut,
    read_message,
    read_startup,
)

TEXT_LENGTH: Final = 300


@dataclass
class Request:
    number: int
    """From 0, over all connections."""
    text: str = ""
    """The beginning of what was asked, for reports."""
    within: tuple[str, ...] = ()
    """What was asked before it in the same transaction."""
    is_dropped: bool = False


Chosen = Callable[[Request], bool]


@dataclass
class Flow:
    """One connection: what was asked on it and not yet answered."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    asked: list[Request] = field(default_factory=list)
    within: tuple[str, ...] = ()

    def take(self, request: Request) -> None:
        self.asked.append(request)
        request.within = self.within
        if request.text.startswith(("COMMIT", "ROLLBACK")):
            self.within = ()
        elif self.within or request.text.startswith("BEGIN"):
            self.within = (*self.within, request.text)


class Proxy(Listener):
    """In front of the server at `url`, which is to be reached over TCP. `url_of` gives a URL that leads through it."""

    def __init__(self, url: str, *, delay_s: float = 0.0) -> None:
        super().__init__()
        self._to = urlsplit(url)
        self.url = self.url_of(url)
        self.delay_s = delay_s
        """How much later than it was given the client gets a reply, however many are on their way."""
        self.requests: list[Request] = []
        self.turns = 0
        """How often a client asked something with nothing else on its way: what it costs where the server is far."""
        self.broke = threading.Event()
        """Set when the request that was to be broken has been."""
        self.held = threading.Event()
        """Set while a request is held."""
        self._drop: Chosen = nothing
        self._lose: Chosen = nothing
        self._hold: Chosen = nothing
        self._goes_on = asyncio.Event()
        self._is_cut = False
        self._open = asyncio.Event()
        self.speak()

    def url_of(self, url: str) -> str:
        """The same by way of this proxy."""
        to = urlsplit(url)
        name = to.netloc.rpartition("@")[0]
        return to._replace(netloc=f"{name}@127.0.0.1:{self.port}").geturl()

    # -- what goes wrong

    def drop_reply(self, ahead: int = 0) -> None:
        """The server does the request after `ahead` more; the client gets no reply to it but the connection's end."""
        self.broke.clear()
        self._drop = self._nth(ahead)

    def lose_request(self, ahead: int = 0) -> None:
        """The request after `ahead` more never comes to the server; the connection ends."""
        self.broke.clear()
        self._lose = self._nth(ahead)

    def drop_replies(self, chosen: Chosen) -> None:
        """As `drop_reply`, to every request that is chosen."""
        self._drop = chosen

    def lose_requests(self, chosen: Chosen) -> None:
        """As `lose_request`, every request that is chosen."""
        self._lose = chosen

    def hold(self, chosen: int | Chosen = 0) -> None:
        """One request waits here, and what its connection has locked stays locked, until `let_go`: the first that is
        chosen, or the one after so many more."""
        self.held.clear()
        self._goes_on.clear()
        self._hold = self._nth(chosen) if isinstance(chosen, int) else chosen

    def let_go(self, *, cut: bool = False) -> None:
        """What is held goes to the server; with `cut` its connection ends instead, and nothing is held any more."""
        self._hold, self._is_cut = nothing, cut
        self.loop.call_soon_threadsafe(self._goes_on.set)

    def _nth(self, ahead: int) -> Chosen:
        number = len(self.requests) + ahead
        return lambda request: request.number == number

    def silence(self) -> None:
        """From now on nothing passes, either way, and nothing is closed: as a network that lost its cable."""
        self.loop.call_soon_threadsafe(self._open.clear)

    def speak(self) -> None:
        """What was held back passes, and all that comes."""
        self.loop.call_soon_threadsafe(self._open.set)

    # -- one connection

    async def _end(self) -> None:
        self._open.set()  # or a connection would wait for it before it ends
        self._goes_on.set()
        await super()._end()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        startup = await read_startup(reader, writer)
        await self._open.wait()
        from_server, server = await asyncio.open_connection(self._to.hostname, self._to.port)
        flow = Flow(writer, server)
        try:
            server.write(startup.packed)
            if startup.code == CANCEL_REQUEST:
                await from_server.read()
                return
            ways = [asyncio.ensure_future(way) for way in (self._asks(reader, flow), self._answers(from_server, flow))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await self._open.wait()
        finally:
            cut(server)

    async def _asks(self, reader: asyncio.StreamReader, flow: Flow) -> None:
        unsent: list[Message] = []
        while True:
            unsent.append(message := await read_message(reader))
            if message.kind in PARTS:
                continue  # it goes on with its end, so that it can be lost whole
            if message.asks:
                request = self._asked(flow, unsent)
                if self._lose(request):
                    self.broke.set()
                    return
                if self._hold(request):
                    self._hold = nothing
                    self.held.set()
                    await self._goes_on.wait()
                    if self._is_cut:
                        return
            await self._open.wait()
            flow.server.write(b"".join(message.packed for message in unsent))
            unsent.clear()
            await flow.server.drain()

    def _asked(self, flow: Flow, messages: list[Message]) -> Request:
        said = next((message.body for message in messages if message.kind in (QUERY, PARSE)), b"")
        text = said.strip(b"\0").partition(b"\0")[0].decode(errors="replace")[:TEXT_LENGTH]
        request = Request(len(self.requests), text)
        if not flow.asked:
            self.turns += 1
        flow.take(request)
        request.is_dropped = self._drop(request)
        self.requests.append(request)
        return request

    async def _answers(self, reader: asyncio.StreamReader, flow: Flow) -> None:
        answers = asyncio.Queue[tuple[float, bytes]]()
        delivery = asyncio.ensure_future(self._deliver(flow, answers))
        try:
            await self._take_answers(reader, flow, answers)
        finally:
            delivered = asyncio.ensure_future(answers.join())
            await asyncio.wait((delivered, delivery), return_when=asyncio.FIRST_COMPLETED)
            delivered.cancel()
            delivery.cancel()

    async def _take_answers(
        self, reader: asyncio.StreamReader, flow: Flow, answers: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        """Until the server has gone, or the answer that is to be dropped was given."""
        while True:
            message = await read_message(reader)
            request = flow.asked[0] if flow.asked else None
            if request is None or not request.is_dropped:
                answers.put_nowait((self.loop.time() + self.delay_s, message.packed))
            if message.kind == READY and request is not None:
                flow.asked.pop(0)
                if request.is_dropped:
                    self.broke.set()
                    return

    async def _deliver(self, flow: Flow, answers: asyncio.Queue[tuple[float, bytes]]) -> None:
        while True:
            due, data = await answers.get()
            if (wait := due - self.loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._open.wait()
            flow.client.write(data)
            await flow.client.drain()
            answers.task_done()


def nothing(_request: Request) -> bool:
    return False
