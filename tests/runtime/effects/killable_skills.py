"""Skills with a process of their own, and what they do there."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reenact import SkillContext, current, skill
from reenact.errors import SkillError

IMPORTED_IN = os.getpid()


@skill("act_up", version="1.0.0", tool_class="read", isolation="process", retry={"max_retries": 0})
def act_up(ctx: SkillContext, how: str, where: str = "") -> Any:
    """Whatever no thread may do."""
    ctx.side_effect("acted_up", how)
    return ACTIONS[how](ctx, where)


def note_pid(where: str) -> None:
    with Path(where).open("a") as file:
        file.write(f"{os.getpid()}\n")


def spin(ctx: SkillContext, where: str) -> None:
    """Holds the interpreter, and does not hear of polite signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    note_pid(where)
    while True:
        pass


def leave_a_family(ctx: SkillContext, where: str) -> str:
    """Children and their children, by fork and by exec, that would outlive it."""
    for _ in range(2):
        if os.fork() == 0:
            if os.fork() == 0:
                note_pid(where)
                time.sleep(600)
            note_pid(where)
            time.sleep(600)
    sleeper = f"import os, time; open({where!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", sleeper])
    while len(Path(where).read_text().split() if Path(where).exists() else []) < 5:
        time.sleep(0.005)
    return "done"


def leave_a_family_and_hang(ctx: SkillContext, where: str) -> None:
    leave_a_family(ctx, where)
    note_pid(where)
    time.sleep(600)


def let_a_fork_return(ctx: SkillContext, where: str) -> str:
    return "parent" if os.fork() else "child"


def print_words(ctx: SkillContext, where: str) -> str:
    print("to one")
    print("to the other", file=sys.stderr)
    return "done"


def look_around(ctx: SkillContext, where: str) -> dict[str, object]:
    return {
        "folder": str(Path.cwd()),
        "variable": os.environ.get("REENACT_TEST_VARIABLE"),
        "imported_here": os.getpid() == IMPORTED_IN,
        "leads_its_session": os.getsid(0) == os.getpid(),
        "stdin": sys.stdin.read(),
        "run_id": ctx.run_id,
        "key": ctx.idempotency_key,
        "draw": ctx.random.random(),
        "remaining": ctx.remaining_seconds,
        "goal_context": dict(ctx.context).get("budget_cents"),
    }


def report_nonsense(ctx: SkillContext, where: str) -> None:
    ctx.request_id("half a pair: \ud800")
    ctx.usage("many", 10**30)  # type: ignore[arg-type]
    ctx.http_status("OK")  # type: ignore[arg-type]
    ctx.finish_reason(["x"])  # type: ignore[arg-type]
    ctx.side_effect(None, object())  # type: ignore[arg-type]


def raise_it(error: BaseException) -> object:
    raise error


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def tell(ctx: SkillContext, where: str) -> str:
    ctx.progress("half way")
    ctx.progress("there \ud800")
    return "done"


ACTIONS: dict[str, Callable[[SkillContext, str], object]] = {
    "answer": lambda ctx, where: os.getpid(),
    "current": lambda ctx, where: [current().trace_id, ctx.trace_id],
    "exit": lambda ctx, where: sys.exit(3),
    "leave": lambda ctx, where: os._exit(7),
    "crash": lambda ctx, where: os.kill(os.getpid(), signal.SIGSEGV),
    "spin": spin,
    "family": leave_a_family,
    "family and hang": leave_a_family_and_hang,
    "fork": let_a_fork_return,
    "print": print_words,
    "look": look_around,
    "report nonsense": report_nonsense,
    "refuse": lambda ctx, where: raise_it(ConnectionRefusedError(111, "no")),
    "named": lambda ctx, where: raise_it(SkillError.of("ERR_JSON_INVALID", "x", why=object(), n=math.nan)),
    "unprintable": lambda ctx, where: raise_it(Unprintable()),
    "huge errno": lambda ctx, where: raise_it(OSError(2**70, "x \ud800")),
    "NaN": lambda ctx, where: math.nan,
    "tell": tell,
    "services": lambda ctx, where: sorted(ctx.services),
}


@skill("swallow", version="1.0.0", tool_class="read", isolation="process", retry={"max_retries": 0})
async def swallow(where: str) -> None:
    """An async one, which hears of nothing."""
    note_pid(where)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


def never_at_the_top() -> object:
    @skill("hidden", version="1.0.0", tool_class="read", isolation="process")
    def hidden() -> None:
        """Only this function has it."""

    return hidden
