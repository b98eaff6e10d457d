"""Skills that take their time, in a thread, in the loop and in a process of their own, and write down what they did."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from reenact import SkillError, skill

LEDGER = Path("ledger")


def write(text: str) -> None:
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def work(name: str, seconds: float) -> str:
    if seconds and Path("out of order").exists():
        raise SkillError.of("ERR_OUT_OF_ORDER", "out of order")
    write(f"began {name}")
    time.sleep(seconds)
    write(f"did {name}")
    return name


@skill("slow.thread", version="1.0.0", tool_class="write", in_doubt="hold")
def in_thread(name: str, seconds: float) -> str:
    return work(name, seconds)


@skill("slow.loop", version="1.0.0", tool_class="write", in_doubt="hold")
async def in_loop(name: str, seconds: float) -> str:
    write(f"began {name}")
    await asyncio.sleep(seconds)
    write(f"did {name}")
    return name


@skill("slow.process", version="1.0.0", tool_class="write", in_doubt="hold", isolation="process")
def in_process(name: str, seconds: float) -> str:
    return work(name, seconds)
