"""A process on a host of its own: `python -m tests.leases.host URL HOST HOURS WHAT`. Its clock is off by so many hours.

It does what it is told, and prints what came of it as one line of JSON.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import closing


def be(host: str, hours: float) -> None:
    """Before anything of reenact is loaded."""
    real = time.time_ns
    time.time_ns = lambda: real() + int(hours * 3_600_000_000_000)
    time.time = lambda: time.time_ns() / 1e9
    platform.node = lambda: host


def do(url: str, what: str) -> object:
    from reenact import Runtime, skill
    from reenact.errors import ReenactError

    @skill("note", version="1.0.0", tool_class="read")
    def note(text: str) -> str:
        """What is noted."""
        if what == "die":
            os.kill(os.getpid(), 9)
        if what == "wait":
            print(json.dumps("waiting"), flush=True)
            sys.stdin.readline()
        return text

    def run(text: str) -> object:
        steps = [{"step_id": "a", "skill_id": "note", "parameters": {"text": text}}]
        return runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps}).run_id

    def recover() -> object:
        return {result.run_id: [result.status, str(result.error or "")] for result in runtime.recover()}

    def take() -> object:
        return [runtime.store.acquire(row.run_id, "me").owner for row in runtime.store.runs(status=("running",))]

    def today() -> object:
        return runtime.store.today(runtime.store.clock)

    acts: dict[str, Callable[[], object]] = {"recover": recover, "take": take, "today": today}
    with closing(Runtime(url, skills=[note])) as runtime:
        try:
            return acts[what]() if what in acts else run(what)
        except ReenactError as error:
            return {"error": type(error).__name__, "kid": getattr(error, "kid", None), "exit": error.exit_code}


if __name__ == "__main__":
    place, name, off, wanted = sys.argv[1:]
    be(name, float(off))
    print(json.dumps(do(place, wanted)), flush=True)
