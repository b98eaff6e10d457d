"""Rate limits: how often and how many at once, per skill and per host, kept by this process.

A plan says `context.rate_limits = {"skills": {ID: LIMIT}, "hosts": {HOST: LIMIT}}`, where LIMIT has any of
`per_second`, `burst` and `concurrent`; the host `*` stands for every host that has no limit of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from reenact.errors import SkillError
from reenact.skills.context import SkillContext

LIMITER_SERVICE = "limiter"
_FIELDS = {"per_second", "burst", "concurrent"}


@dataclass(frozen=True)
class Limit:
    """`per_second` calls on average, `burst` of them at once, `concurrent` in flight; None is no limit."""

    per_second: float | None = None
    burst: int = 1
    concurrent: int | None = None


@dataclass
class _Bucket:
    tokens: float
    filled_at: float
    in_flight: int = 0


class Limiter:
    """Token buckets by name. Calls never wait here: a refusal is an outcome, and waiting is dispatch's affair."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}

    @contextmanager
    def hold(self, name: str, limit: Limit, ctx: SkillContext) -> Iterator[None]:
        """One call under the limit, or the error that says which one was reached."""
        bucket = self._enter(name, limit, ctx)
        try:
            yield
        finally:
            with self._lock:
                bucket.in_flight -= 1

    def _enter(self, name: str, limit: Limit, ctx: SkillContext) -> _Bucket:
        now = ctx.clock.monotonic()
        with self._lock:
            bucket = self._buckets.setdefault(name, _Bucket(tokens=float(limit.burst), filled_at=now))
            if limit.concurrent is not None and bucket.in_flight >= limit.concurrent:
                raise SkillError.of(
                    "ERR_RATE_LIMIT_CONCURRENT", f"{name}: {limit.concurrent} calls are in flight", limit=name
                )
            if limit.per_second is not None:
                gained = max(0.0, now - bucket.filled_at) * limit.per_second
                bucket.tokens = min(float(limit.burst), bucket.tokens + gained)
                bucket.filled_at = now
                if bucket.tokens < 1.0:
                    ctx.retry_after(math.ceil((1.0 - bucket.tokens) / limit.per_second * 1000))
                    raise SkillError.of(
                        "ERR_RATE_LIMIT_INTERNAL", f"{name}: more than {limit.per_second:g} calls a second", limit=name
                    )
                bucket.tokens -= 1.0
            bucket.in_flight += 1
            return bucket


_PROCESS = Limiter()


@contextmanager
def limited(ctx: SkillContext, skill: str, host: str | None = None) -> Iterator[None]:
    """Holds the limits that the plan sets for a skill and for a host. The skill's is asked first."""
    limiter: Limiter = ctx.services.get(LIMITER_SERVICE) or _PROCESS
    configured: Mapping[str, Any] = ctx.context.get("rate_limits") or {}
    with ExitStack() as held:
        for name, limit in _limits(configured, skill, host):
            held.enter_context(limiter.hold(name, limit, ctx))
        yield


def _limits(configured: Mapping[str, Any], skill: str, host: str | None) -> Iterator[tuple[str, Limit]]:
    unknown = set(configured) - {"skills", "hosts"}
    if unknown:
        raise _invalid(f"{min(unknown)} is neither skills nor hosts")
    skills, hosts = configured.get("skills", {}), configured.get("hosts", {})
    if skill in skills:
        yield f"skill {skill}", _limit(skills[skill])
    if host is not None and (host in hosts or "*" in hosts):
        yield f"host {host}", _limit(hosts.get(host, hosts.get("*")))


def _limit(fields: Any) -> Limit:
    if not isinstance(fields, Mapping) or not set(fields) <= _FIELDS:
        raise _invalid("a limit has per_second, burst and concurrent")
    for name, value in fields.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole or (name == "per_second" and isinstance(value, float))) or value <= 0:
            raise _invalid(f"{name} must be a positive number")
    return Limit(**fields)


def _invalid(why: str) -> SkillError:
    return SkillError.of("ERR_VALIDATION_FAILED", f"context.rate_limits: {why}")
