"""Asks over HTTP, with a time limit for the whole and a bound for the answer. No redirect is followed."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import closing, suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from reenact.errors import ReenactError, UsageError
from reenact.version import __version__

MAX_ANSWER_BYTES: Final = 1 << 17
TIME_LIMIT_S: Final = 10.0
LATE: Final = "no answer in time"


class NoAnswer(ReenactError):
    """Nobody answered, or not what can be read."""

    code = "WITNESS_UNREACHABLE"
    exit_code = 3


class Reply(NamedTuple):
    status: int
    body: bytes
    kind: str


def check_url(url: str) -> str:
    """The address without a slash at its end; UsageError where it is none that can be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError(f"{url!r} is no address; write https://HOST[:PORT][/PATH]") from None
    has_more = parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in ("http", "https") or not parts.hostname or has_more or port == 0 or not url.isprintable():
        raise UsageError(f"{url!r} is no address of a witness; write https://HOST[:PORT][/PATH]")
    return url.rstrip("/")


def ask(
    method: str, url: str, body: bytes | None = None, *, kind: str = "text/plain", limit_s: float = TIME_LIMIT_S
) -> Reply:
    """One request, one answer; NoAnswer within the limit otherwise."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection = (
        http.client.HTTPSConnection(parts.hostname, parts.port, timeout=limit_s, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=limit_s)
    )
    headers = {"User-Agent": f"reenact/{__version__}", "Connection": "close"}
    if body is not None:
        headers["Content-Type"] = kind
    found: list[Reply | str] = []
    asking = threading.Thread(
        target=lambda: found.append(talk(connection, method, parts.path or "/", body, headers)), daemon=True
    )
    asking.start()
    asking.join(limit_s)  # names, addresses, handshakes, and one that says a byte now and then: all of it together
    said = found[0] if found else LATE
    if isinstance(said, Reply):
        return said
    cut_off(connection)
    raise NoAnswer(f"{url}: {said}")


def talk(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> Reply | str:
    """The answer, or why there is none."""
    try:
        with closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read(MAX_ANSWER_BYTES + 1)
            if answer.length and len(data) <= MAX_ANSWER_BYTES:
                return "its answer ends before its end"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return reason_of(error)
    if len(data) > MAX_ANSWER_BYTES:
        return f"it answers with more than {MAX_ANSWER_BYTES} bytes"
    return Reply(answer.status, data, answer.getheader("Content-Type", "").partition(";")[0].strip().lower())


def cut_off(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return LATE
    told = getattr(error, "strerror", None) or str(error)
    return str(told) or type(error).__name__
