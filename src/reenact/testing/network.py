"""Blocking the network in tests: whatever connects by mistake fails at once, with the address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class NetworkShut(OSError):
    """Something tried to leave the machine, or to look a name up, while the network was shut."""


@contextmanager
def shut_network() -> Iterator[None]:
    """No connection, no datagram and no name look-up while the block lasts. Sockets between processes still work."""
    real_connect, real_connect_ex, real_sendto = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto

    def connect(self: socket.socket, address: Any) -> None:
        __tracebackhide__ = True
        refuse(self, address)
        real_connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        __tracebackhide__ = True
        refuse(self, address)
        return real_connect_ex(self, address)

    def sendto(self: socket.socket, *args: Any) -> int:
        __tracebackhide__ = True
        refuse(self, args[-1])
        return real_sendto(self, *args)

    with (
        patch.object(socket.socket, "connect", connect),
        patch.object(socket.socket, "connect_ex", connect_ex),
        patch.object(socket.socket, "sendto", sendto),
        patch.object(socket, "getaddrinfo", refuse_name),
    ):
        yield


def refuse(sock: socket.socket, address: object) -> None:
    __tracebackhide__ = True
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        raise NetworkShut(f"the network is shut in this test; something connects to {address!r}")


def refuse_name(host: object, *_: object, **__: object) -> list[object]:
    __tracebackhide__ = True
    raise NetworkShut(f"the network is shut in this test; something looks up {host!r}")
