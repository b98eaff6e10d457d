"""kv_store over a service that keeps its promises."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.builtin.kv_store import kv_store
from tests.builtin.calling import Called, call


class MemoryStore:
    """`KeyValueService` in memory: a write with a key that was seen returns what it returned."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], Any] = {}
        self.done: dict[str, Any] = {}

    def get(self, namespace: str, key: str) -> Any:
        return self.values.get((namespace, key))

    def exists(self, namespace: str, key: str) -> bool:
        return (namespace, key) in self.values

    def _once(self, token: str, action: Any) -> Any:
        if token not in self.done:
            self.done[token] = action()
        return self.done[token]

    def set(self, namespace: str, key: str, value: Any, *, idempotency_key: str) -> None:
        self._once(idempotency_key, lambda: self.values.__setitem__((namespace, key), value))

    def delete(self, namespace: str, key: str, *, idempotency_key: str) -> bool:
        return bool(self._once(idempotency_key, lambda: self.values.pop((namespace, key), None) is not None))

    def incr(self, namespace: str, key: str, by: int, *, idempotency_key: str) -> int:
        def add() -> int:
            known = self.values.get((namespace, key), 0)
            if not isinstance(known, int):
                raise TypeError
            self.values[namespace, key] = known + by
            return known + by

        total: int = self._once(idempotency_key, add)
        return total


class AsyncStore(MemoryStore):
    """The same with coroutine functions."""

    async def get(self, namespace: str, key: str) -> Any:
        return super().get(namespace, key)

    async def incr(self, namespace: str, key: str, by: int, *, idempotency_key: str) -> int:  # type: ignore[override]
        return super().incr(namespace, key, by, idempotency_key=idempotency_key)


def use(store: Any, operation: str, key: str = "k", token: str = "t", **more: Any) -> Called:
    parameters = {"operation": operation, "key": key, **more}
    return call(kv_store, parameters, services={"kv": store}, idempotency_key=token)


def test_a_value_is_set_read_and_deleted() -> None:
    store = MemoryStore()
    assert use(store, "get").output == {"found": False, "value": None}
    assert use(store, "set", value={"a": [1]}, token="1").output == {"found": True, "value": None}
    assert use(store, "get").output == {"found": True, "value": {"a": [1]}}
    assert use(store, "exists").output["found"] is True
    assert use(store, "get", namespace="other").output["found"] is False
    assert use(store, "delete", token="2").output["found"] is True
    assert use(store, "delete", token="3").output["found"] is False


@pytest.mark.parametrize("store", [MemoryStore(), AsyncStore()])
def test_an_increment_that_comes_again_with_its_key_counts_once(store: Any) -> None:
    assert use(store, "incr", by=5, token="a").output["value"] == 5
    assert use(store, "incr", by=5, token="a").output["value"] == 5
    assert use(store, "incr", by=-2, token="b").output["value"] == 3
    assert use(store, "get").output["value"] == 3


def test_writes_are_side_effects_on_their_namespace_and_reads_are_none() -> None:
    store = MemoryStore()
    assert use(store, "set", value=1, namespace="n").report.side_effects == [("kv_write", "n")]
    for operation in ("get", "exists"):
        assert use(store, operation).report.side_effects == []
        assert kv_store.tool_class_of({"operation": operation, "key": "k"}) == "read"
    assert kv_store.tool_class_of({"operation": "incr", "key": "k"}) == "write"


def test_what_cannot_be_done_is_refused() -> None:
    store = MemoryStore()
    use(store, "set", value="text", token="1")
    assert use(store, "incr", token="2").code == "ERR_VALIDATION_FAILED"
    assert use(store, "set", token="3").code == "ERR_VALIDATION_FAILED"
    assert call(kv_store, {"operation": "get", "key": "k"}).code == "ERR_SKILL_DISABLED"
    assert kv_store.validate({"operation": "get", "key": ""}) != []
