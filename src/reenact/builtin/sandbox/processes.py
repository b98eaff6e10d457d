"""The descendants of the launcher: found in /proc, counted, and ended until none is left."""

from __future__ import annotations

import os
import signal

_PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(pid: int) -> list[int]:
    """Of a process, at this moment: some may come and go meanwhile."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def threads(pids: list[int]) -> int:
    """How many tasks they are to the kernel, at least one each."""
    total = 0
    for pid in pids:
        try:
            total += max(1, os.stat(f"/proc/{pid}/task").st_nlink - 2)
        except OSError:
            continue
    return total


def resident_bytes(pids: list[int]) -> int:
    """The memory that they hold; what several share is counted for each."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1]) * _PAGE
        except OSError:
            continue
    return total


def end_all() -> None:
    """Kills and reaps until this process has no child: what one of them leaves behind comes here, as it adopts."""
    while True:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it has ended meanwhile
    return found
