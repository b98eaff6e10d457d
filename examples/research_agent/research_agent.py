"""A research agent: asks a model what to look up, looks it up in a small library, and writes down what it found.

Runs offline: the model is the built-in stub, the library is the folder beside this file. Run it twice with the same
store and the second run is a new session; kill it half-way and `--resume RUN` goes on with the first.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from reenact import Runtime, skill
from reenact.errors import SkillError

LIBRARY = Path(__file__).with_name("library")
QUESTIONS = ["tides", "moon", "tides", "atlantis"]


@skill("library.look_up", version="1.0.0", tool_class="read", idempotent=True, reads=["library"])
def look_up(topic: str) -> dict[str, str]:
    """What the library says about a topic."""
    page = LIBRARY / f"{topic}.txt"
    if not page.is_file():
        raise SkillError.of("ERR_HTTP_404", f"the library has nothing about {topic}")
    return {"topic": topic, "text": page.read_text(encoding="utf-8").strip()}


async def research(runtime: Runtime, goal: str, resume: str | None) -> str:
    async with runtime.session(
        goal=goal, agent_id="researcher", budget_cents=50, resume=resume, duplicate_output=True
    ) as session:
        notes = []
        for topic in QUESTIONS:
            found = await session.call("library.look_up", {"topic": topic})
            print(f"{topic:10} {found.code}")
            if found.output is not None:
                notes.append(found.output["text"])
        await session.turn()
        prompt = "Sum up: " + " ".join(notes)
        answer = await session.call("llm_invoke", {"prompt": prompt, "model": "stub"})
        print(f"{'answer':10} {answer.code}, {answer.cost_cents} cents")
        await session.verify([f"test -d {LIBRARY}"])
        session.finish(confidence=0.7 if answer.ok else 0.0)
        return session.run_id


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--store", default="sqlite:///research.db")
    options.add_argument("--resume", default=None)
    given = options.parse_args()
    runtime = Runtime(given.store, skills=[look_up])
    run_id = asyncio.run(research(runtime, "why are there tides?", given.resume))
    print(f"session {run_id}")


if __name__ == "__main__":
    main()
