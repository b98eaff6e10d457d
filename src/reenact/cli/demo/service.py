"""A flaky shop on loopback: unavailable twice, then it works, and counts what it really did.

`python -m reenact.cli.demo.service` prints its port, and ends when its standard input is closed.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

UNAVAILABLE = 2
"""How many quotes are refused before the first is given."""


class Shop:
    """What the service did, as far as the world can tell."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.quotes_asked = 0
        self.orders_asked = 0
        self.orders: dict[str, str] = {}
        """idempotency key → the order that was placed under it"""

    def quote(self) -> tuple[int, dict[str, Any]]:
        with self.lock:
            self.quotes_asked += 1
            if self.quotes_asked <= UNAVAILABLE:
                return 503, {"error": "the shop is closed, try again"}
            return 200, {"item": "tea", "price_cents": 1250}

    def order(self, key: str) -> tuple[int, dict[str, Any]]:
        """Places an order once per key, however often it is asked to."""
        with self.lock:
            self.orders_asked += 1
            number = self.orders.setdefault(key, f"order-{len(self.orders) + 1}")
            return 201, {"order_id": number}

    def ledger(self) -> tuple[int, dict[str, Any]]:
        with self.lock:
            return 200, {
                "quotes_asked": self.quotes_asked,
                "orders_asked": self.orders_asked,
                "orders_placed": len(self.orders),
            }


class Handler(BaseHTTPRequestHandler):
    """One request of the shop."""

    shop: Shop

    def do_GET(self) -> None:
        self.answer(*(self.shop.ledger() if self.path == "/ledger" else self.shop.quote()))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.answer(*self.shop.order(self.headers.get("idempotency-key") or ""))

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
        """The demo tells what happened; the service stays quiet."""


def serve() -> None:
    Handler.shop = Shop()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    serve()
