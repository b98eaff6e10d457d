"""Services that the runtime lends to skills through `ctx.services`, by name."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Protocol

KV_SERVICE = "kv"
STORE_FILES_SERVICE = "store_files"
FOLDERS_SERVICE = "folders"


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


class StoreFiles(Protocol):
    """The files of the run's store and its keys: `ctx.services["store_files"]`. No skill may read or change them."""

    def paths(self) -> list[Path]:
        """Those that are there, resolved, and those that the store may make at any time."""

    def has(self, path: Path) -> bool:
        """Whether this is one of them, by whatever name or link, also where there is no such file yet."""

    def has_open(self, descriptor: int) -> bool:
        """Whether what was opened is one of them: a name may have been turned to another file meanwhile."""


class Folders(Protocol):
    """The folders that the host's policy gives to a run, in `ctx.services["folders"]`; None is any.

    A run is held to them when it begins. What a folder's name leads to may be another one since: whoever works in it
    asks once more, of where it really is.
    """

    @property
    def workspaces(self) -> tuple[str, ...] | None: ...

    @property
    def readable(self) -> tuple[str, ...] | None:
        """Of what commands are given to read besides."""
