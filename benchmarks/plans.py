"""The plan that is measured: many small steps of one skill that does next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reenact import Runtime, skill
from reenact.skills.skill import Skill


@skill("note", version="1.0.0", idempotent=True)
async def note(text: str, count: int) -> dict[str, Any]:
    """What is left of a step when its skill takes no time."""
    return {"said": text, "next": count + 1}


@skill("note_after_a_while", version="1.0.0", idempotent=True)
async def note_after_a_while(text: str, count: int) -> dict[str, Any]:
    """The same after what a fast service takes to answer."""
    await asyncio.sleep(0.002)
    return {"said": text, "next": count + 1}


SKILLS = (note, note_after_a_while)


def plan(steps: int, skill_id: str = "note") -> dict[str, object]:
    return {
        "plan_id": "small-steps",
        "agent_id": "benchmark",
        "goal": "many small steps",
        "steps": [
            {
                "step_id": f"step-{number}",
                "skill_id": skill_id,
                "skill_version": "1.0.0",
                "parameters": {"text": f"the note of step {number}", "count": number},
            }
            for number in range(steps)
        ],
    }


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder on the disk that the project lies on: /tmp may be memory, where a commit costs nothing."""
    with TemporaryDirectory(prefix=".benchmark-", dir=Path(__file__).resolve().parent) as folder:
        yield Path(folder)


@contextmanager
def runtime(path: Path, skills: Iterable[Skill] = SKILLS) -> Iterator[Runtime]:
    opened = Runtime(f"sqlite:///{path}", skills=skills)
    try:
        yield opened
    finally:
        opened.close()
