"""Skills that the tests of the command line run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill


@skill("steady", version="1.0.0", tool_class="read", idempotent=True, cost_estimate_cents=2)
def steady(text: str = "hello") -> dict[str, str]:
    """Gives back what it got."""
    return {"text": text}


@skill("flaky", version="1.0.0", tool_class="read", retry={"backoff_base_ms": 1}, cost_estimate_cents=1)
def flaky(ctx: SkillContext, failures: int = 2) -> dict[str, int]:
    """Fails a few times, then works."""
    if ctx.attempt < failures:
        raise TimeoutError("not yet")
    return {"attempt": ctx.attempt}


@skill("broken", version="1.0.0", tool_class="read")
def broken(words: str = "it is broken") -> dict[str, str]:
    """Never works."""
    raise SkillError.of("ERR_VALIDATION_FAILED", words)


@skill("counts", version="1.0.0", tool_class="write", side_effects=["count"])
def counts(ctx: SkillContext, file: str) -> dict[str, str]:
    """Leaves a line in a file, so that a second call would show."""
    ctx.side_effect("count", file)
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(ctx.idempotency_key + "\n")
    return {"file": file}


@skill("waits", version="1.0.0", tool_class="read")
async def waits(file: str) -> dict[str, str]:
    """Returns once a file is there."""
    while not Path(file).exists():  # noqa: ASYNC110  # another process makes the file
        await asyncio.sleep(0.01)
    return {"file": file}
