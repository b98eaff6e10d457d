"""Many processes on one file: each opens the store for itself, appends as fast as it can, and keeps count."""

from __future__ import annotations

import json
import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import SystemClock
from tests.store.units import Run, payload

COMMITS_PER_RUN = 20


@dataclass(frozen=True)
class Member:
    """What one process says about itself."""

    number: int
    appended: dict[str, int]
    """run → commits that `append` said are durable"""
    slowest_s: float
    opened_s: float
    error: str | None

    @property
    def total(self) -> int:
        return sum(self.appended.values())


def gather(folder: Path, processes: int, seconds: float) -> list[Member]:
    """Let `processes` write to one store for `seconds`, and bring back what they say."""
    path = str(folder / "crowd.db")
    children = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                report = write(path, number, seconds)
                (folder / f"member-{number}.json").write_text(json.dumps(report.__dict__), encoding="utf-8")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * processes
    members = [json.loads((folder / f"member-{number}.json").read_text()) for number in range(processes)]
    return [Member(**member) for member in members]


def write(path: str, number: int, seconds: float) -> Member:
    """Runs of a few commits each, one after the other, with leases taken, renewed and given back."""
    appended: dict[str, int] = {}
    slowest = opened = 0.0
    error = None
    began = time.monotonic()
    try:
        store = SqliteStore(path, clock=SystemClock())
        opened = time.monotonic() - began
        while time.monotonic() - began < seconds:
            slowest = max(slowest, one_run(store, f"{number:02d}-{len(appended):06d}", appended, began + seconds))
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    return Member(number, appended, slowest, opened, error)


def one_run(store: SqliteStore, run_id: str, appended: dict[str, int], until: float) -> float:
    """The slowest append of one run, in seconds."""
    run, lease, slowest = Run(run_id), None, 0.0
    for _ in range(COMMITS_PER_RUN):
        unit, taken = run.unit(payloads=[payload(run_id.encode() * 20, len(run.bodies))])
        began = time.monotonic()
        done = store.append(unit, lease, owner="crowd")
        slowest = max(slowest, time.monotonic() - began)
        taken(done)
        lease = done.lease
        appended[run_id] = len(run.bodies)
        if time.monotonic() > until:
            break
    assert lease is not None
    store.renew([lease])
    store.release(lease, "completed")
    return slowest


def check(folder: Path, members: list[Member]) -> str:
    """Nobody met an error, nothing that was said to be durable is missing, nobody starved. Gives a line to print."""
    assert [member.error for member in members if member.error] == []
    store = SqliteStore(str(folder / "crowd.db"))
    kept = {row.run_id: row.commits for row in store.runs()}
    store.close()
    said = {run_id: commits for member in members for run_id, commits in member.appended.items()}
    assert kept == said, "a commit was lost, or one appeared that nobody made"
    assert min(member.total for member in members) > 0, "a process never got its turn"
    totals = sorted(member.total for member in members)
    return (
        f"{len(members)} processes, {sum(totals)} commits, {totals[0]} to {totals[-1]} each, "
        f"slowest append {max(member.slowest_s for member in members) * 1000:.0f} ms, "
        f"slowest opening {max(member.opened_s for member in members) * 1000:.0f} ms"
    )
