"""`kv_store`: small values that outlive a step, kept in the run's own store."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.skills.services import KV_SERVICE, KeyValueService

Operation = Literal["get", "set", "delete", "exists", "incr"]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
READ_OPERATIONS = ("get", "exists")


class KeyValueResult(TypedDict):
    """`found`: whether the key was there (after a write: whether it is). `value`: what `get` or `incr` give."""

    found: bool
    value: Any


@skill(
    "kv_store",
    version="1.0.0",
    tool_class="write",
    read_when={"operation": READ_OPERATIONS},
    honours_key=True,
    reads=["kv"],
    writes=["kv"],
    side_effects=["kv_write"],
    failure_modes=["ERR_SKILL_DISABLED", "ERR_VALIDATION_FAILED"],
    tags=["storage"],
)
async def kv_store(
    ctx: SkillContext,
    operation: Operation,
    key: Name,
    *,
    value: Any = None,
    namespace: Name = "default",
    by: int = 1,
) -> KeyValueResult:
    """Gets, sets, deletes, tests or increments one key of a namespace.

    Null cannot be stored: use delete. A write that is dispatched again after a crash changes nothing twice.
    """
    service: KeyValueService | None = ctx.services.get(KV_SERVICE)
    if service is None:
        raise SkillError.of("ERR_SKILL_DISABLED", "kv_store works inside a run, whose store it uses")
    if operation == "get":
        found = await _settled(service.get(namespace, key))
        return KeyValueResult(found=found is not None, value=found)
    if operation == "exists":
        return KeyValueResult(found=bool(await _settled(service.exists(namespace, key))), value=None)
    if operation == "set" and value is None:
        raise SkillError.of("ERR_VALIDATION_FAILED", "value: null cannot be stored; use the operation delete")
    ctx.side_effect("kv_write", namespace)
    return await _write(service, ctx.idempotency_key, operation, namespace, key, value, by)


async def _write(
    service: KeyValueService, token: str, operation: Operation, namespace: str, key: str, value: Any, by: int
) -> KeyValueResult:
    if operation == "set":
        await _settled(service.set(namespace, key, value, idempotency_key=token))
        return KeyValueResult(found=True, value=None)
    if operation == "delete":
        was_there = await _settled(service.delete(namespace, key, idempotency_key=token))
        return KeyValueResult(found=bool(was_there), value=None)
    try:
        total = await _settled(service.incr(namespace, key, by, idempotency_key=token))
    except TypeError:
        raise SkillError.of("ERR_VALIDATION_FAILED", "incr: the value under this key is not an integer") from None
    return KeyValueResult(found=True, value=total)


async def _settled(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result
