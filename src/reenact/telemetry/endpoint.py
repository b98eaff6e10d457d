"""An HTTP endpoint for Prometheus scrapers: answers with a store's metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from reenact.errors import UsageError
from reenact.store.base import Store
from reenact.telemetry.store_metrics import StoreCollector


@contextmanager
def serving(store: Store, port: int, address: str = "127.0.0.1") -> Iterator[int]:
    """Serve `/metrics` until the block ends; gives the port, which is a free one for 0."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(store))
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise UsageError(f"{address}:{port} cannot be listened on: {error.strerror}; choose another --port") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
