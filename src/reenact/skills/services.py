"""Services that the runtime lends to skills through `ctx.services`, by name."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

KV_SERVICE = "kv"


class KeyValueService(Protocol):
    """The run's store as a key-value map: `ctx.services["kv"]`.

    A method may be plain or a coroutine function. A write that comes again with the same `idempotency_key`
    MUST change nothing and MUST return what it returned the first time: that is what lets `kv_store` be
    dispatched again after a crash.
    """

    def get(self, namespace: str, key: str) -> Any | Awaitable[Any]:
        """The value, or None when there is none (JSON null cannot be stored)."""

    def exists(self, namespace: str, key: str) -> bool | Awaitable[bool]: ...

    def set(self, namespace: str, key: str, value: Any, *, idempotency_key: str) -> Awaitable[None] | None:
        """Puts a JSON value in place of whatever was there."""

    def delete(self, namespace: str, key: str, *, idempotency_key: str) -> bool | Awaitable[bool]:
        """True when there was something to delete."""

    def incr(self, namespace: str, key: str, by: int, *, idempotency_key: str) -> int | Awaitable[int]:
        """Adds to an integer (0 when absent), returns the sum. MUST raise TypeError for any other value."""
