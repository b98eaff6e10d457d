"""A witness on the network: one process, bounded requests, nothing but `add-checkpoint` and its checkpoints."""

from __future__ import annotations

import io
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from reenact.errors import ReenactError, UsageError
from reenact.witness.connections import Connections
from reenact.witness.cosigner import MAX_REQUEST_BYTES, Answer, Cosigner, refusal_of

TIME_LIMIT_S: Final = 10.0
"""For a request, from when it is waited for until it is answered, however many bytes it comes in."""
AT_ONCE: Final = 32
PATIENCE_S: Final = 5.0
"""For a connection that was closed to make room."""
MAX_HEAD_BYTES: Final = 1 << 14
CHECKPOINT: Final = re.compile(r"/([0-9a-f]{64})/checkpoint")
NOT_FOUND: Final = Answer(404, b"POST /add-checkpoint, or GET /<SHA-256 of the origin>/checkpoint\n")


class WitnessServer(ThreadingHTTPServer):
    """Serves `at_once` connections. Where one more comes, that which was waited for longest gives it its place, so that
    many that say nothing keep nobody out; one whose request is there is answered first."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 4 * AT_ONCE

    def __init__(
        self, address: tuple[str, int], cosigner: Cosigner, *, at_once: int = AT_ONCE, limit_s: float = TIME_LIMIT_S
    ) -> None:
        self.cosigner = cosigner
        self.limit_s = limit_s
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(at_once)
        self.connections = Connections(limit_s)
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._has_room():
            self.shutdown_request(request)  # a log that is turned away comes again
            return
        self.connections.wait_for(request)  # before its thread comes to it, so that it can be closed for another one
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._room.release()
            raise

    def _has_room(self) -> bool:
        return self._room.acquire(blocking=False) or (
            self.connections.close_oldest() and self._room.acquire(timeout=PATIENCE_S)
        )

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def shutdown_request(self, request: Any) -> None:
        self.connections.forget(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second, and after each connection that came."""
        self.connections.close_late()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that goes away, or says what is no HTTP, is nobody's business."""


class Bounded(io.BufferedReader):
    """The lines of a request, which come to an end after so many bytes."""

    left = MAX_HEAD_BYTES

    def readline(self, size: int | None = -1, /) -> bytes:
        most = self.left if size is None or size < 0 else min(size, self.left)
        line = super().readline(most)
        self.left -= len(line)
        return line


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "reenact-witness", ""
    server: WitnessServer
    rfile: Bounded

    def setup(self) -> None:
        self.request.settimeout(self.server.limit_s)
        super().setup()
        self.rfile = Bounded(self.rfile.detach())

    def handle_one_request(self) -> None:
        self.rfile.left = MAX_HEAD_BYTES
        self.server.connections.wait_for(self.connection)
        super().handle_one_request()

    def parse_request(self) -> bool:
        is_read = super().parse_request()
        if is_read and not self.rfile.left:
            self.send_error(431)
            return False
        return is_read

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length, re.ASCII) or "Transfer-Encoding" in self.headers:
            self._answer(Answer(411, b"say how long the body is\n"), close=True)
        elif int(length) > MAX_REQUEST_BYTES:
            self._answer(Answer(413, b"a request has at most %d bytes\n" % MAX_REQUEST_BYTES), close=True)
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                self.server.connections.has_asked(self.connection)
                self._answer(self._asked(body))

    def _asked(self, body: bytes) -> Answer:
        if self.path != "/add-checkpoint":
            return NOT_FOUND
        try:
            return self.server.cosigner.add_checkpoint(body)
        except ReenactError as error:
            return refusal_of(error)

    def do_GET(self) -> None:
        self.server.connections.has_asked(self.connection)
        wanted = CHECKPOINT.fullmatch(self.path)
        try:
            answer = NOT_FOUND if wanted is None else self.server.cosigner.checkpoint(wanted[1])
        except ReenactError as error:
            answer = refusal_of(error)
        self._answer(answer, close=not {"Content-Length", "Transfer-Encoding"}.isdisjoint(self.headers))

    def _answer(self, answer: Answer, *, close: bool = False) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        if close:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as its base names it
        """Nothing is printed: what counts is on record."""


def read_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[V6]:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or int(port) > 65535 or not host:
        raise UsageError(f"an address is HOST:PORT, such as 127.0.0.1:8733, not {text!r}")
    return host.strip("[]"), int(port)
