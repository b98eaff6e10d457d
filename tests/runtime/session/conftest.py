"""A runtime whose world is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import SkillError
from tests.engines.places import store_at


class World:
    """What the skills really did."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.fail_next = 0
        self.seen: list[object] = []

    def skills(self) -> Registry:
        world = self

        @skill("search", version="1.0.0", tool_class="read", idempotent=True, reads=["orders"])
        async def search(q: str) -> dict[str, str]:
            world.calls["search"] += 1
            await asyncio.sleep(0.01)
            if world.fail_next:
                world.fail_next -= 1
                raise SkillError.of("ERR_HTTP_404", "nothing there")
            return {"q": q}

        @skill("order", version="1.0.0", tool_class="write", writes=["orders"], side_effects=["http_request"])
        async def order(ctx: SkillContext, item: str, token: str = "") -> dict[str, str]:
            world.calls["order"] += 1
            world.seen.append(token)
            ctx.side_effect("http_request", "shop.example.com")
            return {"item": item, "key": ctx.idempotency_key}

        @skill("mail", version="1.0.0", tool_class="write")
        def mail(to: str) -> str:
            world.calls["mail"] += 1
            return f"sent to {to}"

        @skill("priced", version="1.0.0", tool_class="read", cost_estimate_cents=3)
        async def priced(x: int) -> int:
            world.calls["priced"] += 1
            return x

        @skill("http_call", version="1.2.0", tool_class="read")
        async def http_call(url: str) -> str:
            return url

        return Registry([search, order, mail, priced, http_call])


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def runtime(world: World, tmp_path: Path) -> Runtime:
    return Runtime(store_at(tmp_path / "store.db"), skills=world.skills(), secrets={"SHOP_TOKEN": "tok-very-secret-1"})
