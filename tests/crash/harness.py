"""A forked process that runs plans until it is killed, and the checks that hold for whatever it left behind."""

from __future__ import annotations

import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reenact import Runtime
from reenact.contracts.records import RunStatus
from reenact.journal.fold import TraceFold
from reenact.journal.run_fold import RunFold
from reenact.record.result import RunResult
from reenact.runtime import crash_points
from reenact.store.base import Store
from reenact.store.checks.verification import verify_run
from reenact.store.open import open_store
from tests.crash.world import Arrival, Ledger, act, flaky, note
from tests.engines.places import store_at

SKILLS = (act, flaky, note)
ENDED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")
MANY_DEATHS = 1_000
"""Here a call is killed as often as it takes, and goes on all the same."""


@dataclass(frozen=True)
class Stage:
    """A store and a world beside it."""

    folder: Path
    given: str = ""
    """The URL of the store, where it is none in the folder."""

    @property
    def url(self) -> str:
        return self.given or store_at(f"sqlite:///{self.store_path}")

    @property
    def store_path(self) -> str:
        return str(self.folder / "store.db")

    @property
    def ledger_path(self) -> str:
        return str(self.folder / "ledger.db")

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.ledger_path)

    def runtime(self) -> Runtime:
        return Runtime(self.url, skills=SKILLS, max_redispatches=MANY_DEATHS)

    def plan(self, name: str = "p") -> dict[str, object]:
        """Two attempts, a reference, a refused step, a caller's key, both kinds of skill."""
        book = self.ledger_path
        steps: list[dict[str, object]] = [
            {"step_id": "first", "skill_id": "act", "parameters": {"ledger": book, "value": 7}},
            {"step_id": "shaky", "skill_id": "flaky", "parameters": {"ledger": book, "failures": 1}},
            {"step_id": "refused", "skill_id": "nobody", "skill_version": "9.9.9", "on_error": "continue"},
            {
                "step_id": "keyed",
                "skill_id": "act",
                "parameters": {"ledger": book, "value": "{{first.value}}"},
                "idempotency_key": f"key of {name}",
            },
            {"step_id": "last", "skill_id": "note", "parameters": {"ledger": book, "text": "{{keyed.value}} done"}},
        ]
        return {"plan_id": name, "agent_id": "crash", "steps": steps}


def in_child(work: Callable[[], object], *, crash_at: str | None = None) -> int:
    """Run `work` in a forked process: the signal that ended it, 0 when it came to its end. Exceptions are failures."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            crash_points.arm(crash_at)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.waitstatus_to_exitcode(status) == 0, "the child failed on its own; its traceback is above"
    return 0


@dataclass
class RunBefore:
    """What the journal of one run held when the process died."""

    bodies: list[bytes]
    recorded: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(trace, attempt) of every dispatch whose result is recorded"""


@dataclass
class Before:
    """Everything that was durable, and what the world had seen, when the process died."""

    runs: dict[str, RunBefore]
    arrivals: int


def look(stage: Stage) -> Before:
    store = open_store(stage.url)
    runs = {row.run_id: read_run(store, row.run_id) for row in store.runs()}
    store.close()
    return Before(runs, len(stage.ledger.calls()))


def read_run(store: Store, run_id: str) -> RunBefore:
    bodies = list(store.bodies(run_id))
    found = RunBefore(bodies)
    for trace in folded(run_id, bodies)[1]:
        found.recorded.update((trace.trace_id, each.attempt) for each in trace.attempts if each.kind == "attempt")
    return found


def folded(run_id: str, bodies: list[bytes]) -> tuple[RunFold, list[TraceFold]]:
    """The run's state and all of its traces, in the order of their ends; those that are open come last."""
    fold, traces = RunFold(run_id), []
    fold.on_finish = traces.append
    fold.apply_bodies(bodies)
    return fold, [*traces, *fold.open.values()]


def recover(stage: Stage) -> list[RunResult]:
    runtime = stage.runtime()
    try:
        return runtime.recover()
    finally:
        runtime.close()


def check_survived(stage: Stage, before: Before, *, status: RunStatus | None = "completed") -> None:
    """After recovery: nothing recorded was sent again, nothing is lost, order and keys are kept, all is sealed."""
    store = open_store(stage.url)
    arrivals = stage.ledger.calls()
    again = Counter((call.trace_id, call.attempt) for call in arrivals[before.arrivals :])
    for row in store.runs():
        bodies = list(store.bodies(row.run_id))
        fold, traces = folded(row.run_id, bodies)
        earlier = before.runs.get(row.run_id, RunBefore([]))
        assert bodies[: len(earlier.bodies)] == earlier.bodies, "a commit that was durable is gone or changed"
        assert not set(earlier.recorded) & set(again), "a recorded dispatch was made again"
        assert row.status in ENDED if status is None else row.status == status, f"{row.run_id} is {row.status}"
        assert fold.seal is not None, "the run is not sealed"
        check_calls(traces, [call for call in arrivals if call.run_id == row.run_id])
        verified = verify_run(stage.url, row.run_id)
        assert verified.exit_code == 0, (verified.report.first_break, verified.differences)
        check_effects(traces, stage.ledger.effects())
    store.close()


def check_calls(traces: list[TraceFold], arrivals: list[Arrival], *, ordered: bool = True) -> None:
    by_trace: Mapping[str, TraceFold] = {trace.trace_id: trace for trace in traces}
    calls = Counter((call.trace_id, call.attempt) for call in arrivals)
    for (trace_id, attempt), times in calls.items():
        repeats = sum(each.kind == "redispatch" and each.attempt == attempt for each in by_trace[trace_id].attempts)
        assert times <= 1 + repeats, f"attempt {attempt} of {trace_id} was sent {times} times, in doubt {repeats} times"
    for call in arrivals:
        recorded = by_trace[call.trace_id].call
        assert recorded is not None, "a call that was never recorded reached the world"
        assert call.key == recorded.idempotency_key, "the key changed"
    order = list(dict.fromkeys(by_trace[call.trace_id].step_index for call in arrivals))
    assert not ordered or order == sorted(order), "steps reached the world in another order than that of the plan"


def check_effects(traces: list[TraceFold], effects: Mapping[str, str]) -> None:
    """What the journal calls done was done in the world, under the key that stands in the journal."""
    for trace in traces:
        if trace.state == "COMPLETED":
            assert trace.call is not None
            step_id = effects.get(trace.call.idempotency_key)
            assert step_id is not None, f"{trace.step_id} did not happen"
            assert step_id == trace.step_id or trace.meta("idempotency_source") == "caller"


KILLED = signal.SIGKILL
