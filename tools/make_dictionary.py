"""Make the compression dictionary of the store: a short journal with every kind of line, its most common commit last.

A dictionary is never changed once stores use it: write a new number instead.
    python tools/make_dictionary.py src/reenact/store/dictionary_N.bin
"""

from __future__ import annotations

import sys
from pathlib import Path

from reenact.replay.runtime import Runtime
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.skills.registry import Registry
from reenact.values.clock import FixedClock

calls = {"fetch": 0}


@skill("http_call", version="1.0.0", tool_class="read", side_effects=["http_request"])
async def fetch(ctx: SkillContext, url: str) -> dict[str, str]:
    """Fails once, so that the journal holds a retried attempt."""
    calls["fetch"] += 1
    ctx.side_effect("http_request", "api.example.com")
    ctx.http_status(200)
    if calls["fetch"] == 1:
        raise TimeoutError
    return {"url": url}


@skill("refused", version="1.0.0", tool_class="write", cost_estimate_cents=5000)
async def refused(to: str) -> str:
    return to


def main(target: Path) -> None:
    runtime = Runtime(":memory:", skills=Registry([fetch, refused]), clock=FixedClock(seed="dictionary"))
    steps: list[dict[str, object]] = [
        {"step_id": "s0", "skill_id": "http_call", "parameters": {"url": "https://a"}},
        {"step_id": "s1", "skill_id": "refused", "parameters": {"to": "b"}, "on_error": "continue"},
        {"step_id": "s2", "skill_id": "http_call", "parameters": {"url": "https://c"}},
        {"step_id": "s3", "skill_id": "http_call", "parameters": {"url": "https://d"}},
    ]
    result = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps, "context": {"budget_cents": 100}})
    bodies = list(runtime.store.bodies(result.run_id))
    # A match near the end is cheapest to name: rare lines first, the commit that every step makes last.
    usual = bodies.pop(-2)
    target.write_bytes(b"".join(bodies) + usual)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
