"""HTTP connections that go only where the guard allows."""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from reenact.builtin.extras import require
from reenact.builtin.net.body import ACCEPT_ENCODING, BoundedAnswer
from reenact.builtin.net.guard import Guard
from reenact.skills.context import SkillContext

if TYPE_CHECKING:
    import httpcore2
    import httpx2

TLS_SERVICE = "tls_context"
_MAX_CONNECT_SECONDS = 10.0
_OF_PACKED = frozenset({b"content-encoding", b"content-length"})


def guarded_transport(ctx: SkillContext, skill: str) -> httpx2.AsyncHTTPTransport:
    """One attempt's connections: retried never, and through no proxy.

    A proxy would resolve names where the guard cannot see them.
    """
    require("httpx2", extra="http", skill=skill)
    guard = Guard.of(ctx.context, ctx.services)
    tls: ssl.SSLContext | None = ctx.services.get(TLS_SERVICE)
    return _guarded_transport(guard, tls or _tls_context())


def guarded_client(ctx: SkillContext, skill: str, *, seconds: float, answer: BoundedAnswer) -> httpx2.AsyncClient:
    """The same as a client, for libraries that want one. It follows no redirect, and reads no endless answer."""
    transport = _bounded_transport(guarded_transport(ctx, skill), answer)
    import httpx2

    return httpx2.AsyncClient(
        transport=transport,
        headers={"accept-encoding": ACCEPT_ENCODING},
        timeout=httpx2.Timeout(**timeouts(seconds)),
        follow_redirects=False,
        trust_env=False,
    )


def timeouts(seconds: float) -> dict[str, float]:
    """Limits of the single operations; the whole is bounded by whoever makes the call."""
    return {"connect": min(seconds, _MAX_CONNECT_SECONDS), "read": seconds, "write": seconds, "pool": seconds}


def on_first_byte(report: Callable[[], None]) -> dict[str, Any]:
    """Request extensions that call `report` once, right before the first byte of a request leaves."""
    told = False

    async def trace(event: str, _info: dict[str, Any]) -> None:
        nonlocal told
        if event.endswith(".send_request_headers.started") and not told:
            told = True
            report()

    return {"trace": trace}


def _tls_context() -> ssl.SSLContext:
    return _tls_context_for(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=4)
def _tls_context_for(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """Loading the system's certificates takes some 20 ms: once per setting is enough."""
    import httpcore2

    return httpcore2.default_ssl_context()


def _guarded_transport(guard: Guard, tls: ssl.SSLContext) -> httpx2.AsyncHTTPTransport:
    import httpcore2
    import httpx2

    class GuardedTransport(httpx2.AsyncHTTPTransport):
        """The library's transport over a pool that connects through the guard."""

        def __init__(self) -> None:
            super().__init__(verify=tls, trust_env=False)
            self._pool = httpcore2.AsyncConnectionPool(ssl_context=tls, retries=0, network_backend=_backend(guard))

    return GuardedTransport()


def _bounded_transport(inner: httpx2.AsyncHTTPTransport, answer: BoundedAnswer) -> httpx2.AsyncBaseTransport:
    import httpx2

    class BoundedStream(httpx2.AsyncByteStream):
        def __init__(self, packed: httpx2.Response) -> None:
            self._packed = packed

        def __aiter__(self) -> AsyncIterator[bytes]:
            return answer.parts(self._packed)

        async def aclose(self) -> None:
            await self._packed.aclose()

    class BoundedTransport(httpx2.AsyncBaseTransport):
        """Hands answers over unpacked: a library that unpacks them itself does so without a limit."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            packed = await inner.handle_async_request(request)
            unpacked = [(name, value) for name, value in packed.headers.raw if name.lower() not in _OF_PACKED]
            return httpx2.Response(
                packed.status_code, headers=unpacked, stream=BoundedStream(packed), extensions=packed.extensions
            )

        async def aclose(self) -> None:
            await inner.aclose()

    return BoundedTransport()


def _backend(guard: Guard) -> httpcore2.AsyncNetworkBackend:
    import anyio
    import httpcore2

    class GuardedBackend(httpcore2.AsyncNetworkBackend):
        """Checks and connects in one act: between the two there is no second resolution to be tricked with."""

        def __init__(self) -> None:
            self._inner = httpcore2.AnyIOBackend()

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109 - the interface is the library's
            local_address: str | None = None,
            socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            try:
                with anyio.fail_after(timeout):
                    addresses = await guard.approve(host, port)
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout("name resolution took too long") from error
            except OSError as error:
                raise httpcore2.ConnectError("the name cannot be resolved") from error

            def connect(address: str) -> Awaitable[httpcore2.AsyncNetworkStream]:
                return self._inner.connect_tcp(address, port, timeout, local_address, socket_options)

            return await _first(addresses, connect, httpcore2.ConnectError)

        async def connect_unix_socket(self, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
            raise httpcore2.UnsupportedProtocol("unix sockets are not reachable from a plan")

        async def sleep(self, seconds: float) -> None:
            await self._inner.sleep(seconds)

    return GuardedBackend()


async def _first(
    addresses: list[str],
    connect: Callable[[str], Awaitable[httpcore2.AsyncNetworkStream]],
    failure: type[Exception],
) -> httpcore2.AsyncNetworkStream:
    """The first address that answers; when none does, the last one's own error."""
    for address in addresses[:-1]:
        try:
            return await connect(address)
        except failure:
            continue
    return await connect(addresses[-1])
