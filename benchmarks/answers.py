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
WINDOW = 250
"""Calls that are timed together: about 10 ms, so that some of them meet nobody else on a busy machine."""


@skill("look", version="1.0.0", tool_class="read", idempotent=False)
def look(number: int) -> dict[str, int | str]:
    return {"number": number, "text": "x" * 100}


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store.db")
        with Runtime(path, skills=[look]).session(id="loop") as session:
            for number in range(CALLS):
                session.call("look", {"number": number})
        rates, of_cpu, ratios = [], [], []
        for _ in range(ROUNDS):
            opened, rate, cpu = started_again(path)
            began = time.perf_counter()
            assert Runtime(path, skills=[look]).replay("loop").verdict == "matched"
            ratios.append(opened / (time.perf_counter() - began))
            rates.append(rate)
            of_cpu.append(cpu)
    yield Figure(name="answers of a session that is started again", value=max(rates), unit="/s", least=10_000)
    yield Figure(
        name="the same, a second of CPU", value=max(of_cpu), unit="/s", note="what a busy machine leaves as it is"
    )
    yield Figure(name=f"opening a session of {CALLS} calls, by its mock_replay", value=median(ratios), most=2)


def started_again(path: str) -> tuple[float, float, float]:
    """(seconds to open it, answers a second in the window that others disturbed least, answers a second of CPU)"""
    began = time.perf_counter()
    with Runtime(path, skills=[look]).session(id="loop") as session:
        opened, windows, cpu = time.perf_counter() - began, [], time.process_time()
        for first in range(0, CALLS, WINDOW):
            began = time.perf_counter()
            for number in range(first, first + WINDOW):
                session.call("look", {"number": number})
            windows.append(time.perf_counter() - began)
        return opened, WINDOW / min(windows), CALLS / (time.process_time() - cpu)
