"""A program in synchronous sessions that signals come to at any instant: `python -m tests.soak.interrupted FOLDER`.

It makes session after session, each again and again until it has ended, and says in one line of JSON what it found when
its standard input is closed. A signal raises only in a block, or where one is entered or left: what is looked at
between two blocks is looked at in peace.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from reenact import Runtime, skill
from reenact.errors import ReenactError
from reenact.store.checks.verification import verify_run

LONGEST_S = 20.0
"""Whatever a signal does, a block has ended by then."""
SESSIONS_BETWEEN_LOOKS = 20
CALLS = 3


class Odd(BaseException):
    """What no handler of exceptions expects."""


class Alarm(Exception):
    """What a host's own time limit raises."""


RAISED: dict[int, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGALRM: Alarm,
    signal.SIGUSR1: Odd,
    signal.SIGTERM: SystemExit,
}


class Program:
    """What it does, and what it finds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        # An interrupt is no death of a process, but a call that is cut off and sent again counts as one.
        self.runtime = Runtime(str(folder / "store.db"), skills=self.skills(), max_redispatches=1_000)
        self.has_ended = False
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def skills(self) -> list[Any]:
        ledger = self.ledger

        def write(text: str) -> None:
            with ledger.open("a") as file:
                file.write(f"{text}\n")

        @skill("t.thread", version="1.0.0", tool_class="write")
        def in_thread(name: str) -> str:
            time.sleep(0.002)
            write(name)
            return name

        @skill("t.loop", version="1.0.0", tool_class="write", in_doubt="reconcile", reconcile=self.read_back)
        async def in_loop(name: str) -> str:
            await asyncio.sleep(0.002)
            write(name)
            return name

        return [in_thread, in_loop]

    async def read_back(self, ctx: Any, name: str) -> dict[str, object]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return {"done": name in lines, "output": name}

    def heard(self, number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is Program.block.__code__:
                self.seen[signal.Signals(number).name] += 1
                raise RAISED[number]
            frame = frame.f_back

    def block(self, name: str) -> None:
        """The program: with an id, so that it goes on where it was cut."""
        with self.runtime.session(id=name) as s:
            for number in range(CALLS):
                s.call("t.loop" if number % 2 else "t.thread", {"name": f"{name}-{number}"})

    def until_it_ends(self, name: str) -> None:
        began = time.monotonic()
        while time.monotonic() - began < LONGEST_S:
            self.seen["blocks"] += 1
            try:
                self.block(name)
            except tuple(RAISED.values()):
                continue
            except ReenactError as error:
                self.wrong.append(f"{name}: {type(error).__name__}: {error}")
            return
        self.wrong.append(f"{name}: no end within {LONGEST_S} s")

    def look(self, descriptors: int) -> None:
        """Nothing is left of what has ended."""
        until, left = time.monotonic() + 2, self.left(descriptors)
        while left and time.monotonic() < until:
            time.sleep(0.01)
            left = self.left(descriptors)
        self.wrong += left

    def left(self, descriptors: int) -> list[str]:
        gc.collect()
        threads = [thread.name for thread in threading.enumerate() if thread.name == "reenact-session"]
        store: Any = self.runtime.store
        rows = store._reader().query("SELECT run_id FROM runs WHERE owner IS NOT NULL")
        opened = descriptors_open()
        return [
            *(f"thread {name}" for name in threads),
            *(f"lease of {run_id}" for (run_id,) in rows),
            *([f"{opened} descriptors, {descriptors} before"] if opened > descriptors else []),
        ]

    def effects(self, names: list[str]) -> None:
        """Each call was made once: no process died."""
        made = Counter(self.ledger.read_text().splitlines())
        for name in names:
            for number in range(CALLS):
                if made[f"{name}-{number}"] != 1:
                    self.wrong.append(f"{name}-{number} was done {made[f'{name}-{number}']} times")
        self.seen["effects"] = made.total()

    def go(self) -> None:
        for number in RAISED:
            signal.signal(number, self.heard)
        self.until_it_ends("first")
        descriptors = descriptors_open()
        names = ["first"]
        print("begun", flush=True)
        while not self.has_ended and len(self.wrong) < 5:
            names.append(f"s{len(names)}")
            self.until_it_ends(names[-1])
            if len(names) % SESSIONS_BETWEEN_LOOKS == 0:
                self.look(descriptors)
                self.seen["looks"] += 1
        self.look(descriptors)
        self.effects(names)
        for row in self.runtime.store.runs():
            if (code := verify_run(str(self.folder / "store.db"), row.run_id).exit_code) != 0:
                self.wrong.append(f"{row.run_id} ({row.status}): verify exits {code}")
        self.seen["sessions"] = len(names)
        print(json.dumps({"seen": self.seen, "wrong": self.wrong}), flush=True)


def descriptors_open() -> int:
    """Without those of the store, which keeps its connections for the next session."""
    count = 0
    for number in Path("/proc/self/fd").iterdir():
        try:
            count += "/store.db" not in str(number.readlink())
        except OSError:
            continue  # that of the listing itself
    return count


def main() -> None:
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    program = Program(Path(sys.argv[1]))

    def wait() -> None:
        sys.stdin.read()
        program.has_ended = True

    threading.Thread(target=wait, daemon=True).start()
    program.go()


if __name__ == "__main__":
    main()
