"""A writer is stopped (SIGSTOP) in every call that it makes to change its store: others are told, within a bound."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.torture.box import PLAN, TOOLS, Box
from tests.torture.campaign import Case
from tests.torture.faults import calls, prepared
from tests.torture.scenes import SCENES, expect
from tests.torture.shim import CHANGES, Fault

BOUND_S = 30.0
"""Until a second process has its answer, on a machine that has other work."""
WORKERS = 8
"""They wait most of the time."""


def cases(folder: Path) -> Iterator[Case]:
    for name in ("plan", "session"):
        counted = calls(SCENES[name], prepared(SCENES[name], folder / "0"), folder / "counting")
        yield from (Case("frozen", f"{name}:{n}") for n in range(1, counted[CHANGES] + 1))


def run(case: Case, folder: Path) -> tuple[str, list[str]]:
    name, number = case.name.split(":")
    scene = SCENES[name]
    box = prepared(scene, folder).copy(folder / "box")
    pid, read = box.start(lambda: scene.begin(box), Fault("send", int(number), CHANGES, signal.SIGSTOP))
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        os.close(read)
        return "not reached", []
    began = time.monotonic()
    second = box.command("run", str(PLAN), "--skills", TOOLS)
    waited = time.monotonic() - began
    os.kill(pid, signal.SIGCONT)
    first = box.end(pid, read)
    problems = [said for said in (first.ill_told(), second.ill_told()) if said is not None]
    if waited > BOUND_S:
        problems.append(f"told after {waited:.0f} s: {second.err}")
    if second.code != 0 and not re.search(rf"\b{pid}\b", second.err):
        problems.append(f"the process that stands still is not named: {second.err}")
    problems += went_on(box, name)
    return "went on" if second.code == 0 else "told", problems


def went_on(box: Box, name: str) -> Iterator[str]:
    if name == "session":
        again = box.process(lambda: SCENES[name].begin(box))
        if again.code != 0:
            yield f"started again, it gave {again.code}: {again.err[-1000:]}"
    yield from expect(box, 0, "recover", "--skills", TOOLS)
    for run_id, status in box.runs():
        if status != "completed":
            yield f"{run_id} is {status}"
        yield from expect(box, 0, "verify", run_id)
    keys: dict[tuple[str, str], set[str]] = {}
    for arrival in box.arrivals():
        keys.setdefault((arrival.run_id, arrival.step), set()).add(arrival.key)
    if any(len(found) != 1 for found in keys.values()):
        yield f"not one key for each step: {keys}"
    times = Counter((arrival.run_id, arrival.step, arrival.attempt) for arrival in box.arrivals())
    if any(count > 1 for count in times.values()):
        yield f"sent more than once: {times}"
