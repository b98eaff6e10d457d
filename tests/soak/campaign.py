"""Workers on one store, killed and stopped at random; then all is brought to its end and checked from outside."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import ENDED, Stage, check_calls, check_effects, folded
from tests.soak.workload import Worker, acknowledged, pinned_plans

WORKERS = 3
KILLS_PER_ROUND = 60
PATIENCE_S = 300
MEMORY = Path("/dev/shm")


@dataclass
class Tally:
    """What a soak saw."""

    kills: int = 0
    stops: int = 0
    rounds: int = 0
    runs: int = 0
    commits: int = 0
    calls: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        seen = ", ".join(f"{count} {what}" for what, count in sorted(self.seen.items()))
        return (
            f"{self.kills} kills and {self.stops} stops in {self.rounds} rounds: {self.runs} runs, {self.commits} "
            f"commits, {self.calls} calls that reached the world; {seen}"
        )


def soak(seed: int, *, kills: int, deadline: float | None = None) -> Tally:
    """Rounds until there were enough kills, or the time is over."""
    rng, tally = random.Random(seed), Tally()
    while tally.kills < kills and (deadline is None or time.monotonic() < deadline):
        with tempfile.TemporaryDirectory(prefix="reenact-soak-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
            one_round(Stage(Path(folder)), rng, tally, min(KILLS_PER_ROUND, kills - tally.kills))
    return tally


def one_round(stage: Stage, rng: random.Random, tally: Tally, kills: int) -> None:
    tally.rounds += 1
    stage.ledger.calls()
    plans: list[dict[str, object]] = []
    plans += pinned_plans(stage, rng)
    crew = Crew(stage, plans, rng)
    try:
        for _ in range(kills):
            crew.trouble(tally)
    finally:
        crew.end()
    drain(stage, plans, rng.randrange(2**32))
    check(stage, crew.snapshots, tally)


class Crew:
    """Worker processes; whoever dies is replaced."""

    def __init__(self, stage: Stage, plans: list[dict[str, object]], rng: random.Random) -> None:
        self.stage = stage
        self.plans = plans
        self.rng = rng
        self.alive = [self.start() for _ in range(WORKERS)]
        self.stopped: dict[int, float] = {}
        self.snapshots: dict[tuple[int, int], bytes] = {}
        """(run number, commit) → digest, of commits that were seen"""

    def start(self) -> int:
        seed, hasty = self.rng.randrange(2**32), self.rng.random() < 0.3
        return in_process(lambda: Worker(self.stage, self.plans, seed, hasty=hasty).work())

    def trouble(self, tally: Tally) -> None:
        """Wait a moment, then kill somebody; sometimes stop somebody first, and let him wake up later."""
        self.pause()
        if self.rng.random() < 0.3:
            self.stop_somebody(tally)
        self.wake_those_who_slept_enough()
        victim = self.rng.randrange(len(self.alive))
        pid = self.alive[victim]
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "a worker ended by itself: what it met is printed above"
        self.stopped.pop(pid, None)
        self.remember()
        self.alive[victim] = self.start()
        tally.kills += 1

    def pause(self) -> None:
        """Long enough for a worker to come some way; most commits take less than a millisecond here."""
        until = time.monotonic() + self.rng.choice([0.0, 0.005, 0.02, 0.05, 0.12])
        while time.monotonic() < until:
            time.sleep(0.002)
            self.wake_those_who_slept_enough()

    def stop_somebody(self, tally: Tally) -> None:
        pid = self.rng.choice(self.alive)
        if pid not in self.stopped and len(self.stopped) < WORKERS - 1:
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = time.monotonic() + self.rng.uniform(0.02, 0.4)
            tally.stops += 1

    def wake_those_who_slept_enough(self) -> None:
        for pid, until in list(self.stopped.items()):
            if time.monotonic() > until:
                os.kill(pid, signal.SIGCONT)
                del self.stopped[pid]

    def remember(self) -> None:
        """The newest commits: whatever happens, they stay."""
        with closing(sqlite3.connect(self.stage.store_path, timeout=60)) as db:
            rows = db.execute("SELECT id, digest FROM commits ORDER BY rowid DESC LIMIT 50").fetchall()
        self.snapshots |= {divmod(row_id, 1 << 24): digest for row_id, digest in rows}

    def end(self) -> None:
        for pid in self.alive:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def in_process(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def drain(stage: Stage, plans: list[dict[str, object]], seed: int) -> None:
    """Bring everything to its end, as an operator would: recover, decide, resolve."""
    pid = in_process(lambda: Worker(stage, plans, seed, hasty=False).work(until_idle=True))
    until = time.monotonic() + PATIENCE_S
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            keep(stage)
            raise AssertionError(f"runs did not come to their end; the store is kept in {kept_folder()}")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 0, "recovery failed: what it met is printed above"


def check(stage: Stage, snapshots: dict[tuple[int, int], bytes], tally: Tally) -> None:
    store = SqliteStore(stage.store_path)
    arrivals, effects = stage.ledger.calls(), stage.ledger.effects()
    try:
        check_nothing_is_lost(stage, store, snapshots)
        for row in store.runs():
            fold, traces = folded(row.run_id, list(store.bodies(row.run_id)))
            assert row.status in ENDED, f"{row.run_id} is {row.status}"
            assert fold.seal is not None, f"{row.run_id} is not sealed"
            check_calls(traces, [call for call in arrivals if call.run_id == row.run_id], ordered=row.kind == "plan")
            check_effects([trace for trace in traces if not by_person(trace)], effects)
            verified = verify_run(stage.store_path, row.run_id)
            assert verified.exit_code == 0, (row.run_id, verified.report.first_break, verified.differences)
            count(tally, row.kind, row.status, fold, traces)
            tally.runs += 1
            tally.commits += row.commits
        tally.seen["late effects"] += store._reader().query("SELECT count(*) FROM late_effects")[0][0]
        tally.calls += len(arrivals)
    except BaseException:
        keep(stage)
        print(f"the store is kept in {kept_folder()}")
        raise
    finally:
        store.close()


def check_nothing_is_lost(stage: Stage, store: SqliteStore, snapshots: dict[tuple[int, int], bytes]) -> None:
    rows = store._reader().query("SELECT id, digest AS head FROM commits")
    kept = {divmod(row_id, 1 << 24): digest for row_id, digest in rows}
    lost = {place for place, digest in snapshots.items() if kept.get(place) != digest}
    assert not lost, f"commits that were durable are gone or changed: {sorted(lost)}"
    path = acknowledged(stage.folder)
    told = dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}
    statuses = {row.run_id: row.status for row in store.runs()}
    for run_id, status in told.items():
        if status in ENDED:
            assert statuses.get(run_id) == status, f"{run_id} had ended as {status}, and is {statuses.get(run_id)}"


def by_person(trace: TraceFold) -> bool:
    """A person said that it happened: the world need not agree."""
    return trace.effect is not None and all(attempt.kind in ("redispatch", "lost") for attempt in trace.attempts)


def count(tally: Tally, kind: str, status: str, fold: RunFold, traces: list[TraceFold]) -> None:
    tally.seen[f"{kind}s {status}"] += 1
    tally.seen["votes"] += len(fold.votes)
    tally.seen.update(f"events of type {event.type}" for event in fold.events if event.type not in ("turn", "finish"))
    for trace in traces:
        tally.seen[f"calls {trace.state.lower()}"] += 1
        for attempt in trace.attempts:
            tally.seen[f"records of kind {attempt.kind}"] += 1


def kept_folder() -> Path:
    return Path(tempfile.gettempdir()) / "reenact-soak-failed"


def keep(stage: Stage) -> None:
    shutil.rmtree(kept_folder(), ignore_errors=True)
    shutil.copytree(stage.folder, kept_folder())
