"""The tools that are called: each writes its key into a ledger of its own, and waits until that is on the disk."""

from __future__ import annotations

import os
import time

from reenact import SkillContext, skill

LEDGER = "witness/ledger"
"""In the folder that a process works in: a box may be copied elsewhere, its parameters may not change."""


def arrive(ctx: SkillContext) -> None:
    line = f"{ctx.run_id} {ctx.step_id} {ctx.attempt} {ctx.idempotency_key}\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@skill("pay", version="1.0.0", tool_class="write", honours_key=True)
def pay(ctx: SkillContext, value: int, wait_s: float = 0) -> int:
    arrive(ctx)
    time.sleep(wait_s)
    return value


@skill("flaky", version="1.0.0", tool_class="write", honours_key=True, retry={"max_retries": 3, "backoff_base_ms": 1})
def flaky(ctx: SkillContext) -> int:
    """Refuses its first attempt."""
    arrive(ctx)
    if ctx.attempt == 0:
        raise ConnectionRefusedError(111, "not yet")
    return ctx.attempt


TOOLS = (pay, flaky)
