"""A research agent: a model says what to do next, the loop does it and tells what came of it, until there is an answer.

Runs offline: the model is a small program that follows up whatever it reads about, the library is the folder beside
this file. Kill it half-way and start it again: it goes on with the same session, from what it had found.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path
from typing import Any

from reenact import Runtime, SkillError, skill

LIBRARY = Path(__file__).with_name("library")
TOPICS = ("tides", "moon", "atlantis")
MOST_QUESTIONS = 10


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


async def research(runtime: Runtime, name: str, goal: str) -> str:
    async with runtime.session(
        id=name, goal=goal, agent_id="researcher", budget_cents=50, duplicate_output=True
    ) as session:
        found: list[dict[str, str]] = []
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--store", default="sqlite:///research.db")
    options.add_argument("--id", default="tides", help="which question this is")
    given = options.parse_args()
    runtime = Runtime(given.store, skills=[decide, look_up])
    run_id = asyncio.run(research(runtime, given.id, "why are there tides?"))
    print(f"session {run_id}")


if __name__ == "__main__":
    main()
