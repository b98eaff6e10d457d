"""Many synchronous sessions and many short threads of one process, with few descriptors: what it holds stays the same.

    python -m tests.soak.many_sessions SESSIONS THREADS

is to be started under a low `ulimit -n`. Prints what the process held at a tenth of the way and at its end.
"""

from __future__ import annotations

import gc
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from reenact import Runtime, skill

MOST_DESCRIPTORS = 256
MOST_GROWTH = 16_000_000
"""Bytes; what allocators keep for themselves goes up and down by a few millions."""
OBJECTS_EACH = 0.2
"""Python objects that one more session or thread may leave behind: caches fill up, nothing grows with each."""
THREADS_AT_ONCE = 8
ROUNDS = 3


@skill("echo", version="1.0.0", tool_class="read")
def echo(text: str) -> str:
    """Gives back what it got."""
    return text


class Held(NamedTuple):
    """What a process holds of what its system gives it."""

    descriptors: int
    threads: int
    memory: int
    objects: int

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            len(list(Path("/proc/self/fd").iterdir())),
            threading.active_count(),
            pages * resource.getpagesize(),
            len(gc.get_objects()),
        )


def session(runtime: Runtime, number: int) -> None:
    with runtime.session(goal="g") as opened:
        assert opened.call("echo", {"text": str(number)}).ok


def thread(runtime: Runtime, number: int) -> None:
    """Every eighth makes a session; the others only read."""
    if number % THREADS_AT_ONCE == 0:
        session(runtime, number)
    else:
        assert runtime.store.runs(limit=1)


def in_threads(runtime: Runtime, number: int) -> None:
    failed: list[BaseException] = []

    def whole(each: int) -> None:
        try:
            thread(runtime, each)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=whole, args=(number + each,)) for each in range(THREADS_AT_ONCE)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if failed:
        raise failed[0]


def same(what: str, count: int, step: int, act: Callable[[int], None]) -> int:
    """From a tenth of the way on nothing grows; how many there were. What is loaded late, once, is no growth: then the
    same again does not grow."""
    began, done = time.monotonic(), max(count // 10, step)
    for number in range(0, done, step):
        act(number)
    before = Held.now()
    for more in range(ROUNDS):
        until = count * (more + 1)
        for number in range(done, until, step):
            act(number)
        after = Held.now()
        seconds = time.monotonic() - began
        print(f"{what}: {until} in {seconds:.0f} s; at {done}: {before}; at the end: {after}", flush=True)
        grown = grows(before, after, until - done)
        if not grown:
            return until
        before, done = after, until
    raise AssertionError(grown)


def grows(before: Held, after: Held, acts: int) -> list[str]:
    most = Held(2, 1, MOST_GROWTH, round(OBJECTS_EACH * acts) + 500)
    return [
        name for name, *these in zip(Held._fields, before, after, most, strict=True) if these[1] > these[0] + these[2]
    ]


def main(sessions: int, threads: int) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert limit <= MOST_DESCRIPTORS, f"start it under `ulimit -n {MOST_DESCRIPTORS}`, not {limit}"
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # no disk to wait for
        runtime = Runtime(Path(folder) / "store.db", skills=[echo])
        sessions = same("sessions", sessions, 1, lambda number: session(runtime, number))
        threads = same("threads", threads, THREADS_AT_ONCE, lambda number: in_threads(runtime, number))
        assert len(runtime.store.runs()) == sessions + threads // THREADS_AT_ONCE
        runtime.close()
    print("descriptors, threads and memory stayed the same")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
