"""What the executors of a simulation work on: tools with a ledger of their own, plans, session programs, an oracle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from reenact import Registry, SkillContext, skill

HONOUR_KEY, HELD = ("pay", "wire"), ("charge",)
IN_DOUBT: Literal["hold", "redispatch"] = "hold"
"""What becomes of a `charge` of which nobody knows."""


@dataclass
class Ledger:
    """What reached the world, kept by the world."""

    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each call, by its name: the keys under which it arrived."""
    acts: Counter[str] = field(default_factory=Counter)
    """What was done: a tool that honours the key does a thing once."""

    def act(self, skill_id: str, name: str, key: str) -> None:
        if skill_id in HONOUR_KEY and key in self.keys[name]:
            return
        self.keys[name].add(key)
        self.acts[name] += 1


def result(name: str) -> str:
    return f"{name} is done"


@dataclass
class Place:
    """Where tools act now."""

    ledger: Ledger
    draw: random.Random


def tools(ledger: Ledger, draw: random.Random) -> Registry:
    """Declared once, since reading a signature takes longer than most of what is done with it."""
    place, registry = declared_tools(IN_DOUBT)
    place.ledger, place.draw = ledger, draw
    return registry


@cache
def declared_tools(in_doubt: Literal["hold", "redispatch"]) -> tuple[Place, Registry]:
    """Each takes a while before it acts and after that: there a process may die, or be frozen."""
    place = Place(Ledger(), random.Random(0))

    async def acted(ctx: SkillContext, skill_id: str, name: str) -> str:
        ledger, draw = place.ledger, place.draw
        await asyncio.sleep(draw.random() * 2)
        ledger.act(skill_id, name, ctx.idempotency_key)
        await asyncio.sleep(draw.random() * 2)
        return result(name)

    @skill("look", version="1.0.0", tool_class="read")
    async def look(name: str) -> str:
        await asyncio.sleep(place.draw.random())
        return result(name)

    @skill("pay", version="1.0.0", tool_class="write", honours_key=True, cost_estimate_cents=1)
    async def pay(ctx: SkillContext, name: str) -> str:
        return await acted(ctx, "pay", name)

    @skill("charge", version="1.0.0", tool_class="write", in_doubt=in_doubt, cost_estimate_cents=1)
    async def charge(ctx: SkillContext, name: str) -> str:
        return await acted(ctx, "charge", name)

    @skill("wire", version="1.0.0", tool_class="write", honours_key=True)
    def wire(ctx: SkillContext, name: str) -> str:
        """In a thread."""
        place.ledger.act("wire", name, ctx.idempotency_key)
        return result(name)

    return place, Registry([look, pay, charge, wire])


@dataclass(frozen=True)
class Asked:
    skill_id: str
    name: str
    key: str | None = None


@dataclass(frozen=True)
class Job:
    """A plan, or a session's program; `phases` are done one after the other, what is in one side by side."""

    name: str
    is_plan: bool
    phases: tuple[tuple[Asked, ...], ...]

    @property
    def calls(self) -> list[Asked]:
        return [asked for phase in self.phases for asked in phase]

    @property
    def answer(self) -> str:
        """What comes of it where nothing goes wrong, and so it must wherever something does."""
        return ", ".join(result(asked.name) for asked in self.calls)

    @property
    def document(self) -> dict[str, Any]:
        steps = []
        for number, asked in enumerate(self.calls):
            step: dict[str, Any] = {
                "step_id": f"s{number}", "skill_id": asked.skill_id, "parameters": {"name": asked.name},
            }  # fmt: skip
            steps.append(step if asked.key is None else {**step, "idempotency_key": asked.key})
        return {"plan_id": self.name, "agent_id": "agent", "goal": "any", "steps": steps, "context": {}}


def random_job(draw: random.Random, name: str) -> Job:
    is_plan, number, phases = draw.random() < 0.5, 0, []
    for _ in range(draw.randint(3, 4)):
        width = 1 if is_plan else draw.choice((1, 1, 2))
        phase = []
        for _ in range(width):
            skill_id, at = draw.choice(("look", "pay", "charge", "wire", "pay")), f"{name}/{number}"
            key = f"key of {at}" if skill_id in ("pay", "charge") and draw.random() < 0.4 else None
            phase.append(Asked(skill_id, at, key))
            number += 1
        phases.append(tuple(phase))
    return Job(name, is_plan, tuple(phases))
