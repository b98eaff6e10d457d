"""A session that is started again: how fast its record answers, and what it costs to open, beside a replay of it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.figure import Figure
from reenact import Runtime, skill

CALLS = 1000
ROUNDS = 5


@skill("look", version="1.0.0", tool_class="read", idempotent=False)
def look(number: int) -> dict[str, int | str]:
    return {"number": number, "text": "x" * 100}


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store.db")
        with Runtime(path, skills=[look]).session(id="loop") as session:
            for number in range(CALLS):
                session.call("look", {"number": number})
        rates, ratios = [], []
        for _ in range(ROUNDS):
            opened, rate = started_again(path)
            began = time.perf_counter()
            assert Runtime(path, skills=[look]).replay("loop").verdict == "matched"
            ratios.append(opened / (time.perf_counter() - began))
            rates.append(rate)
    yield Figure(name="answers of a session that is started again", value=max(rates), unit="/s", least=10_000)
    yield Figure(name=f"opening a session of {CALLS} calls, by its mock_replay", value=median(ratios), most=2)


def started_again(path: str) -> tuple[float, float]:
    """(seconds to open it, answers a second)"""
    began = time.perf_counter()
    with Runtime(path, skills=[look]).session(id="loop") as session:
        opened = time.perf_counter() - began
        began = time.perf_counter()
        for number in range(CALLS):
            session.call("look", {"number": number})
        return opened, CALLS / (time.perf_counter() - began)
