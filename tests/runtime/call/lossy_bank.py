"""A bank on loopback that books a payment and then does not answer, and skills that pay there in every way."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from reenact import SkillContext, skill

LIMIT_MS = 400


class Bank:
    """What was really paid, by key. `open` lets those answer that wait."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.knows = True
        self.open = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        bank = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                _, _, how = self.path.partition("?")
                bank.paid.append(str(self.headers["Idempotency-Key"]))
                if how == "slow":
                    bank.open.wait(60)
                if how == "cut":
                    return
                if how == "reset":
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                    return
                self.answer({"paid": True}, more=9 if how == "half" else 0)

            def do_GET(self) -> None:
                self.answer({"done": self.path[1:] in bank.paid, "knows": bank.knows})

            def answer(self, value: dict[str, Any], *, more: int = 0) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body) + more))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

            def finish(self) -> None:
                with suppress(OSError):  # it was cut on purpose
                    super().finish()

        return Handler


@contextmanager
def bank_on_loopback() -> Iterator[Bank]:
    bank = Bank()
    thread = threading.Thread(target=bank.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bank
    finally:
        bank.open.set()
        bank.server.shutdown()
        bank.server.server_close()
        thread.join()


def exchange(url: str, method: str, path: str, key: str) -> dict[str, Any]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
    try:
        connection.request(method, path, headers={"Idempotency-Key": key})
        value = json.loads(connection.getresponse().read())
        assert isinstance(value, dict)
        return value
    finally:
        connection.close()


def pays(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    ctx.side_effect("payment", "bank")
    return exchange(url, "POST", f"/pay?{how}", ctx.idempotency_key)


def reads_back(ctx: SkillContext, url: str, how: str) -> dict[str, Any] | None:
    found = exchange(url, "GET", f"/{ctx.idempotency_key}", ctx.idempotency_key)
    return {"done": found["done"], "output": {"found": True}} if found["knows"] else None


WRITE: dict[str, Any] = {"version": "1.0.0", "tool_class": "write", "timeout_ms": LIMIT_MS, "retry": {"max_retries": 0}}


@skill("hold", **WRITE, in_doubt="hold", cost_estimate_cents=4)
def hold(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    return pays(ctx, url, how)


@skill("hold_async", **WRITE, in_doubt="hold")
async def hold_async(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(f"POST /pay?{how} HTTP/1.0\r\nIdempotency-Key: {ctx.idempotency_key}\r\n\r\n".encode())
        await reader.readexactly(4096)
    finally:
        writer.close()
    return {}


@skill("hold_child", **{**WRITE, "timeout_ms": 20_000}, in_doubt="hold", isolation="process")
def hold_child(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    """In a process of its own, which dies after it has paid."""
    answer = pays(ctx, url, "ok")
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


@skill("asks", **WRITE, in_doubt="reconcile", reconcile=reads_back)
def asks(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    return pays(ctx, url, how)


@skill("again", **WRITE)
def again(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    """May be sent twice: nothing else is said of it."""
    return pays(ctx, url, how)


@skill("keyed", **WRITE, in_doubt="hold", honours_key=True)
def keyed(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    return pays(ctx, url, how)


@skill("read", **{**WRITE, "tool_class": "read"}, in_doubt="hold")
def read(ctx: SkillContext, url: str, how: str) -> dict[str, Any]:
    return pays(ctx, url, how)


@skill("note", version="1.0.0", tool_class="write")
async def note(text: str) -> str:
    return text


SKILLS = (hold, hold_async, hold_child, asks, again, keyed, read, note)
