"""The key-value map that the skill `kv_store` uses. A write that comes again changes nothing, and answers as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from reenact.errors import SkillError, UsageError
from reenact.store.base import Guard
from reenact.values.canonical import canonicalize, parse_canonical
from reenact.values.ids import refuse_nul


class KeyValueRows(Protocol):
    """One agent's values inside a transaction."""

    def get(self, namespace: str, key: str, /) -> bytes | None: ...
    def put(self, namespace: str, key: str, content: bytes, /) -> None: ...
    def delete(self, namespace: str, key: str, /) -> bool:
        """Whether there was one."""


Change = Callable[[KeyValueRows], object]


class KeyValueTable(Protocol):
    """Where one agent's values lie."""

    def get(self, namespace: str, key: str, /) -> bytes | None: ...
    def once(self, idempotency_key: str, change: Change, /) -> object:
        """What `change` gives, with the memory of it in one transaction; what it gave, where it was done before."""


class KeyValues:
    """One agent's values; `redact` takes secrets out of them before they are written, `decrypt` opens them."""

    def __init__(self, table: KeyValueTable, redact: Guard, decrypt: Guard) -> None:
        self._table = table
        self._redact = redact
        self._decrypt = decrypt

    def get(self, namespace: str, key: str) -> Any:
        refuse_nul_names(namespace, key)
        content = self._table.get(namespace, key)
        return None if content is None else self._decrypt(parse_canonical(content))

    def exists(self, namespace: str, key: str) -> bool:
        return self.get(namespace, key) is not None

    def _refuse_secret_names(self, *names: str) -> None:
        """Names stand in the store as they are."""
        refuse_nul_names(*names)
        for name in names:
            if self._redact(name) != name:
                raise SkillError.of("ERR_VALIDATION_FAILED", "a key or a namespace must not be a secret")

    def set(self, namespace: str, key: str, value: Any, *, idempotency_key: str) -> None:
        self._refuse_secret_names(namespace, key)
        content = canonicalize(self._redact(value))
        self._table.once(idempotency_key, lambda rows: rows.put(namespace, key, content))

    def delete(self, namespace: str, key: str, *, idempotency_key: str) -> bool:
        refuse_nul_names(namespace, key)
        return bool(self._table.once(idempotency_key, lambda rows: rows.delete(namespace, key)))

    def incr(self, namespace: str, key: str, by: int, *, idempotency_key: str) -> int:
        self._refuse_secret_names(namespace, key)

        def change(rows: KeyValueRows) -> int:
            content = rows.get(namespace, key)
            current = 0 if content is None else parse_canonical(content)
            if type(current) is not int:
                raise TypeError("the value under this key is not an integer")
            rows.put(namespace, key, canonicalize(current + by))
            return current + by

        total = self._table.once(idempotency_key, change)
        assert isinstance(total, int)
        return total


def refuse_nul_names(*names: str) -> None:
    try:
        for name in names:
            refuse_nul("a key or a namespace", name)
    except UsageError as error:
        raise SkillError.of("ERR_VALIDATION_FAILED", str(error)) from None
