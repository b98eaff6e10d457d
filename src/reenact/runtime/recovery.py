"""Recover: go on with every run that nobody works on. Several at once, the oldest first, and none keeps the others.

What one run raises is its own result. One that takes its time gives its place to the next and goes on beside it. Where
the process itself may die of a run, that is known by what it left: the next recovery comes to such runs last, and takes
those that were sent again, and died in that, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from reenact.contracts.records import UNFINISHED
from reenact.errors import (
    DamagedRecord,
    LockAcquireFailed,
    RecoveryFailed,
    RecoveryUnfinished,
    ReenactError,
    UsageError,
)
from reenact.journal.fold import TraceFold
from reenact.journal.lines import decode_line, split_body
from reenact.journal.run_fold import RunFold
from reenact.record.reader import RunReader
from reenact.record.result import RunResult
from reenact.record.state import load_fold
from reenact.runtime.conduct import SETTLED, resume
from reenact.runtime.effects import reports
from reenact.runtime.effects.coroutines import GRACE_S, run_to_its_end
from reenact.runtime.effects.threads import THREADS
from reenact.runtime.engine import Engine
from reenact.runtime.parked import Parked
from reenact.runtime.session.settling import as_waiting
from reenact.store.base import RunRow

JOBS: Final = 8
TIMEOUT_S: Final = 60.0
FREE, TAKEN_UP, SENT_AGAIN = 0, 1, 2
"""How a run was left: what recovery comes to first, and what last."""
LAPSED_S: Final = 0.1
"""After the end of a lease: clocks are not as fine as the records."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many runs are worked on at once, and how long one of them keeps others from its place."""

    jobs: int = JOBS
    timeout_s: float = TIMEOUT_S
    apart: bool = False
    """Each in a thread and a loop of its own, so that one that never waits for anything stops no other."""


def bounds(jobs: int, timeout_s: float, *, apart: bool = False) -> Bounds:
    if type(jobs) is not int or jobs < 1:
        raise UsageError("jobs is a whole number from 1 on: so many runs at once")
    if not timeout_s > 0:
        raise UsageError("timeout_s is a number of seconds above 0")
    return Bounds(jobs, timeout_s, apart and jobs > 1)


async def recover(engine: Engine, bounds: Bounds, on_wait: Callable[[float], None] | None = None) -> list[RunResult]:
    """The result of each, the oldest first; one that cannot go on has an `error`.

    `on_wait` is told how many seconds it takes until leases of other hosts or containers have lapsed.
    """
    rows = engine.store.runs(status=UNFINISHED)[::-1]
    found = await recover_rows(engine, rows, bounds)
    free_in_s = {
        run_id: result.error.free_in_s
        for run_id, result in found.items()
        if isinstance(result.error, LockAcquireFailed) and result.error.free_in_s is not None
    }
    if free_in_s:  # a container that was started again cannot see that the one before it is gone
        if on_wait is not None:
            on_wait(max(free_in_s.values()))
        await engine.drain_state.sleep(max(free_in_s.values()) + LAPSED_S)
        found |= await recover_rows(engine, [row for row in rows if row.run_id in free_in_s], bounds)
    return [found[row.run_id] for row in rows]


async def recover_rows(engine: Engine, rows: list[RunRow], bounds: Bounds) -> dict[str, RunResult]:
    left = {row.run_id: how_it_was_left(engine, row) for row in rows}
    in_order = sorted(rows, key=lambda row: left[row.run_id])  # of the same kind, the oldest first
    work = Work(engine, bounds if len(rows) > 1 else Bounds(1, bounds.timeout_s))
    try:
        for kind, at_once in ((FREE, bounds.jobs), (TAKEN_UP, bounds.jobs), (SENT_AGAIN, 1)):
            await work.on([row for row in in_order if left[row.run_id][0] == kind], at_once)
        return await work.results()
    finally:
        await work.give_up()


def how_it_was_left(engine: Engine, row: RunRow) -> tuple[int, int]:
    """(whether somebody took the run up and died, and if so in a call that was sent again; how often it was taken up).

    Those who died together cannot be told from the one that killed them all: so none of them is taken up beside
    another.
    """
    try:
        left = engine.store.open_run(row.run_id)
        if left is None or left.owner is None or left.token <= 1:
            return FREE, 0
        body = engine.store.body(row.run_id, row.commits) or b""
        last = [decode_line(raw, where="its last commit") for raw in split_body(body, where="its last commit")][-1]
    except Exception:  # noqa: BLE001  # cells of any type
        return TAKEN_UP, 0  # whoever opens it says what is wrong with it
    sent_again = last.attempt is not None and last.attempt.kind == "redispatch"
    return SENT_AGAIN if sent_again else TAKEN_UP, left.token


@dataclass(eq=False)
class Work:
    """Runs that are gone on with, and what came of them."""

    engine: Engine
    bounds: Bounds
    begun: dict[str, tuple[RunRow, asyncio.Future[RunResult]]] = field(default_factory=dict)
    loops: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = field(default_factory=dict)
    """Of runs apart: where each is driven, and by which task."""

    async def on(self, rows: list[RunRow], at_once: int) -> None:
        """Begin with each, so many at once; one that takes its time no longer counts."""
        ahead = iter(rows)
        workers = [asyncio.ensure_future(self._one_by_one(ahead)) for _ in range(min(at_once, len(rows)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _one_by_one(self, ahead: Iterator[RunRow]) -> None:
        for row in ahead:
            future = self._begun(row)
            self.begun[row.run_id] = (row, future)
            await asyncio.wait([future], timeout=self.bounds.timeout_s)
            if future.done():
                future.result()  # raises only what is to stop everything

    def _begun(self, row: RunRow) -> asyncio.Future[RunResult]:
        return (
            THREADS.run(partial(self._apart, row))
            if self.bounds.apart
            else asyncio.ensure_future(contained(self.engine, row))
        )

    def _apart(self, row: RunRow) -> RunResult:
        async def whole() -> RunResult:
            task = asyncio.current_task()
            assert task is not None
            self.loops[row.run_id] = (asyncio.get_running_loop(), task)
            return await contained(self.engine, row)

        try:
            return run_to_its_end(whole())
        except BrokenPipeError:
            raise
        except BaseException as error:  # noqa: BLE001  # also what a task raised that a skill had started
            return failed(self.engine, row, error)

    async def results(self) -> dict[str, RunResult]:
        """Of all that were begun; of one whose loop no longer turns, that it is left."""
        found = await asyncio.gather(*(self._result(run_id) for run_id in self.begun))
        return dict(zip(self.begun, found, strict=True))

    async def _result(self, run_id: str) -> RunResult:
        row, future = self.begun[run_id]
        while not future.done():
            if run_id in self.loops and not await self._turns(run_id):
                return stuck(self.engine, row, self.bounds.timeout_s)
            await asyncio.wait([future], timeout=self.bounds.timeout_s)
        return future.result()

    async def _turns(self, run_id: str) -> bool:
        """Whether the loop of a run apart still turns, by its own answer within the time that a run has."""
        here, turned = asyncio.get_running_loop(), asyncio.Event()
        there, _ = self.loops[run_id]
        try:
            there.call_soon_threadsafe(here.call_soon_threadsafe, turned.set)
        except RuntimeError:
            return True  # it is closed: the run has come to its end
        waiting: asyncio.Future[Any] = asyncio.ensure_future(turned.wait())
        future: asyncio.Future[Any] = self.begun[run_id][1]
        await asyncio.wait([waiting, future], timeout=self.bounds.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return turned.is_set() or future.done()

    async def give_up(self) -> None:
        """Whoever recovers was stopped: so are the runs, each where it can be, and their leases are given back."""
        left = [future for _, future in self.begun.values() if not future.done()]
        for there, task in list(self.loops.values()):
            try:
                there.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                continue  # closed
        if not self.bounds.apart:
            for future in left:
                future.cancel()
        if left:
            await asyncio.wait(left, timeout=GRACE_S)


async def contained(engine: Engine, row: RunRow) -> RunResult:
    """Go on with a run; whatever it raises is its result, but for a closed pipe and a cancellation of ours."""
    if row.damage is not None:
        return failed(engine, row, DamagedRecord(row.damage))
    try:
        return left_alone(engine, row) or await resume(engine, row.run_id)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failed(engine, row, error)
    except BrokenPipeError:  # nobody reads what a command prints: that is the way to stop it
        raise
    except BaseException as error:  # noqa: BLE001  # a skill, a store's rows, a listener: whatever it is
        return failed(engine, row, error)


def left_alone(engine: Engine, row: RunRow) -> RunResult | None:
    """The result of a run that would only be opened to find that nothing can be done; None for any other.

    Of a session that has no open call, and of a run that waits for a person who has not answered.
    """
    store, left = engine.store, engine.store.open_run(row.run_id)
    if left is None or left.owner is not None or left.status not in ("pending", "waiting") or row.kind == "trace":
        return None
    if engine.supervisor is not None or store.pending_votes(row.run_id) or store.cancel_request(row.run_id) is not None:
        return None
    store.authenticate(row.run_id)
    try:
        fold = load_fold(store, row.run_id).fold
    except ReenactError:
        return None  # whoever opens it says what is wrong with it
    asked = [trace for trace in fold.open.values() if waits_for_person(fold, trace)]
    if len(asked) != len(fold.open) or not (asked or row.kind == "session"):
        return None
    engine.mint_for(row.run_id, RunReader(store, row.run_id).record().capability_key)
    reason = f"{SETTLED}; {row.how_to_go_on}"
    if asked:
        step_id = asked[0].step_id
        parked = Parked("waiting", f"a person was asked about step {step_id} and has not answered")
        reason = str(as_waiting(parked, store, row.run_id, step_id) if row.kind == "session" else parked)
    return RunResult(row.run_id, "waiting" if asked else "pending", store, reason=reason)


def waits_for_person(fold: RunFold, trace: TraceFold) -> bool:
    return trace.state == "PENDING" and trace.trace_id in fold.parked and trace.trace_id not in fold.votes


def failed(engine: Engine, row: RunRow, error: BaseException) -> RunResult:
    """Nobody else's trouble."""
    if not isinstance(error, ReenactError):
        said = reports.text(error)
        error = RecoveryFailed(f"run {row.run_id} cannot go on: {type(error).__name__}{said and ': '}{said}")
    return RunResult(row.run_id, row.status, engine.store, reason=str(error), error=error)


def stuck(engine: Engine, row: RunRow, after_s: float) -> RunResult:
    return failed(
        engine,
        row,
        RecoveryUnfinished(
            f"run {row.run_id} has not come to an end, and nothing of it has moved for {after_s:g} s: a skill that "
            'never waits for anything? It is left; give that skill isolation="process"'
        ),
    )
