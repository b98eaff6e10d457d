"""A research agent: a model says what to do next, the loop does it and tells what came of it, until there is an answer.

Runs offline: the model is a small program that follows up whatever it reads about, the library is the folder beside
this file. Kill it half-way and `--resume last` goes on with the same session, from what it had found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from pathlib import Path
from typing import Any

from reenact import Runtime, SkillError, skill

LIBRARY = Path(__file__).with_name("library")
TOPICS = ("tides", "moon", "atlantis")
MOST_QUESTIONS = 10
LOOK_UP_IN_HISTORY = "library__look_up"  # model APIs take no dots in names, and the history is made for them


@skill("model.decide", version="1.0.0", tool_class="read", cost_estimate_cents=1)
def decide(goal: str, found: list[dict[str, str]]) -> dict[str, str]:
    """In a model's place: every topic that it reads about is asked for, whether it was read already or not."""
    read = {entry["topic"]: entry["text"] for entry in found}
    wanted = [word for text in (goal, *read.values()) for word in re.findall(r"\w+", text.lower()) if word in TOPICS]
    if len(found) < min(len(wanted), MOST_QUESTIONS):
        return {"look_up": wanted[len(found)]}
    return {"answer": "Because of the moon."}


@skill("library.look_up", version="1.0.0", tool_class="read", idempotent=True, reads=["library"])
def look_up(topic: str) -> dict[str, str]:
    """What the library says about a topic."""
    page = LIBRARY / f"{topic}.txt"
    if not page.is_file():
        raise SkillError.of("ERR_HTTP_404", f"the library has nothing about {topic}")
    return {"topic": topic, "text": page.read_text(encoding="utf-8").strip()}


async def research(runtime: Runtime, goal: str, resume: str | None) -> str:
    async with runtime.session(
        goal=goal, agent_id="researcher", budget_cents=50, resume=resume, interrupted="settle", duplicate_output=True
    ) as session:
        found = remembered(await session.history())
        while True:
            decided = await session.call("model.decide", {"goal": goal, "found": found})
            said: Any = decided.output
            if not decided.ok or "answer" in said:
                break
            topic = said["look_up"]
            outcome = await session.call("library.look_up", {"topic": topic})
            print(f"{topic:10} {outcome.code}", flush=True)
            found.append(entry(topic, outcome.output))
        print(f"{'answer':10} {decided.code}, {decided.output or decided.message}")
        await session.verify([f"test -d {LIBRARY}"])
        session.finish(confidence=0.7 if decided.ok else 0.0)
        return session.run_id


def entry(topic: str, output: Any) -> dict[str, str]:
    return {"topic": topic, "text": output["text"] if isinstance(output, dict) else ""}


def remembered(history: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What an interrupted session had looked up: each call is followed by its result."""
    found = []
    for called, answered in zip(history[::2], history[1::2], strict=True):
        function = called["tool_calls"][0]["function"]
        if function["name"] == LOOK_UP_IN_HISTORY:
            text = str(answered["content"])
            topic = json.loads(function["arguments"])["topic"]
            found.append(entry(topic, json.loads(text) if text.startswith("{") else None))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--store", default="sqlite:///research.db")
    options.add_argument("--resume", default=None)
    given = options.parse_args()
    runtime = Runtime(given.store, skills=[decide, look_up])
    run_id = asyncio.run(research(runtime, "why are there tides?", given.resume))
    print(f"session {run_id}")


if __name__ == "__main__":
    main()
