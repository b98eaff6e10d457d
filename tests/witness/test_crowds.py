"""Connections that hold a witness up: they say nothing, or a byte now and then, and others are served all the same."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from reenact.store.open import open_witnessed
from reenact.store.signing import key_in_memory
from reenact.values.clock import FixedClock
from reenact.witness.cosigner import Cosigner
from reenact.witness.server import MAX_HEAD_BYTES, WitnessServer
from tests.witness.stores import a_store, log_key, running

AT_ONCE = 4


@contextmanager
def a_crowded_witness(folder: Path, *, limit_s: float) -> Iterator[WitnessServer]:
    with a_store(folder, 1) as store:
        key = log_key(store)
    state = open_witnessed(folder / "witness.db", name="w.example/1")
    server = WitnessServer(
        ("127.0.0.1", 0), Cosigner(state, key_in_memory(), [key], FixedClock()), at_once=AT_ONCE, limit_s=limit_s
    )
    try:
        with running(server):
            yield server
    finally:
        state.close()


def connect(server: WitnessServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=10)


def status(server: WitnessServer, method: str = "POST") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)) as connection:
        connection.request(method, "/add-checkpoint", b"no request" if method == "POST" else None)
        return connection.getresponse().status


def is_closed(peer: socket.socket, within_s: float) -> bool:
    peer.settimeout(within_s)
    try:
        return peer.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def everything(peer: socket.socket) -> bytes:
    """What it is told until it is closed."""
    told = b""
    with suppress(ConnectionError):
        while data := peer.recv(4096):
            told += data
    return told


@pytest.mark.parametrize("says", [b"", b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 50\r\n\r\nold 1"])
def test_many_that_do_not_finish_their_request_keep_nobody_out(tmp_path: Path, says: bytes) -> None:
    with a_crowded_witness(tmp_path, limit_s=60) as server, ExitStack() as stack:
        peers = [stack.enter_context(connect(server)) for _ in range(5 * AT_ONCE)]
        for peer in peers:
            peer.sendall(says)
        began = time.perf_counter()
        assert [status(server) for _ in range(10)] == [400] * 10
        assert time.perf_counter() - began < 10, "nobody waited for the limit of those"
        assert sum(thread.name.startswith("Thread-") for thread in threading.enumerate()) < 20


def test_one_that_says_a_byte_now_and_then_has_the_time_of_one_request(tmp_path: Path) -> None:
    with a_crowded_witness(tmp_path, limit_s=0.6) as server, connect(server) as peer:
        began = time.perf_counter()
        with pytest.raises(OSError):
            for byte in b"POST /add-checkpoint HTTP/1.1\r\n" + b"x" * 500:
                peer.sendall(bytes((byte,)))
                time.sleep(0.05)
        assert time.perf_counter() - began < 15
        assert status(server) == 400


def test_one_that_says_nothing_between_two_requests_is_closed_as_well(tmp_path: Path) -> None:
    with a_crowded_witness(tmp_path, limit_s=0.5) as server, connect(server) as peer:
        for _ in range(2):
            peer.sendall(b"GET /x HTTP/1.1\r\n\r\n")
            told = b""
            while not told.endswith(b"/checkpoint\n"):
                told += peer.recv(4096)
        assert is_closed(peer, 10)


def test_one_that_does_not_read_its_answers_is_closed(tmp_path: Path) -> None:
    with a_crowded_witness(tmp_path, limit_s=0.5) as server, connect(server) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with pytest.raises(OSError):
            for _ in range(100_000):
                peer.sendall(b"GET /x HTTP/1.1\r\n\r\n" * 100)
        assert status(server) == 400


@pytest.mark.parametrize(
    "head", [b"GET /" + b"x" * 60_000, b"GET /x HTTP/1.1\r\n" + b"a: " + b"x" * 60_000, b"a: b\r\n" * 5_000]
)
def test_the_lines_of_a_request_are_bounded(tmp_path: Path, head: bytes) -> None:
    assert len(head) > MAX_HEAD_BYTES
    with a_crowded_witness(tmp_path, limit_s=10) as server, connect(server) as peer:
        peer.sendall(head + b"\r\n\r\n")
        assert b" 404 " not in everything(peer)
        assert status(server, "GET") == 404


def test_an_unread_body_is_never_taken_for_the_next_request(tmp_path: Path) -> None:
    with a_crowded_witness(tmp_path, limit_s=10) as server, connect(server) as peer:
        peer.sendall(b"GET /x HTTP/1.1\r\nContent-Length: 30\r\n\r\nGET /second HTTP/1.1\r\n\r\n")
        assert everything(peer).count(b"HTTP/1.1 404") == 1
