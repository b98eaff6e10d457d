"""An SMTP connection to addresses that the guard approved, with replies that are bounded in bytes and time."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Callable

MAX_REPLY_BYTES = 65_536
"""Of one reply, with all its lines. RFC 5321 (4.5.3.1.5) gives a line 512; greetings with many extensions have some
hundred bytes."""


class PinnedSmtp(smtplib.SMTP):
    """Connects to addresses that the guard approved; the host's name serves TLS only."""

    def __init__(
        self, host: str, port: int, addresses: list[str], remaining: Callable[[], float], tls: ssl.SSLContext | None
    ) -> None:
        """`remaining` says how many seconds are left for all of it."""
        self._addresses = addresses
        self._implicit_tls = tls
        self._host_name = host
        self._remaining = remaining
        # Without a name of its own smtplib asks the name server for this machine's.
        super().__init__(host, port, local_hostname=socket.gethostname(), timeout=max(0.001, remaining()))

    def _get_socket(self, _host: str, port: int, _timeout: float, /) -> socket.socket:
        for address in self._addresses[:-1]:
            try:
                return self._connected(address, port)
            except OSError:
                continue
        return self._connected(self._addresses[-1], port)

    def _connected(self, address: str, port: int) -> socket.socket:
        plain = socket.create_connection((address, port), max(0.001, self._remaining()))
        if self._implicit_tls is None:
            return plain
        return self._implicit_tls.wrap_socket(plain, server_hostname=self._host_name)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            self.file = Replies(self.sock, self._remaining)  # type: ignore[arg-type]  # the socket is there by now
        self.file.begin()
        return super().getreply()


class Replies:
    """What smtplib reads lines from. What it raises is told as a connection that was lost: who says so much, or so
    slowly, has not said what became of the message."""

    def __init__(self, sock: socket.socket, remaining: Callable[[], float]) -> None:
        self._sock = sock
        self._remaining = remaining
        self._waiting = b""
        self._left = MAX_REPLY_BYTES

    def begin(self) -> None:
        self._left = MAX_REPLY_BYTES

    def readline(self, most: int) -> bytes:
        while b"\n" not in self._waiting and len(self._waiting) < most and (part := self._receive()):
            self._waiting += part
        end = self._waiting.find(b"\n", 0, most) + 1 or most
        line, self._waiting = self._waiting[:end], self._waiting[end:]
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"a reply of more than {MAX_REPLY_BYTES} bytes")
        return line

    def _receive(self) -> bytes:
        seconds = self._remaining()
        if seconds <= 0:
            raise TimeoutError("no whole reply in time")
        self._sock.settimeout(seconds)
        return self._sock.recv(4096)

    def close(self) -> None:
        self._waiting = b""
