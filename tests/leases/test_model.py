"""Every state of the lease's rules, a mutant for each rule, and the real store on paths through the model."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reenact.errors import ConcurrentExecution, LockAcquireFailed
from reenact.runtime.run import Run as RuntimeRun
from reenact.store.base import LEASE_MS, Lease
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from tests.leases.model import LEASE, RULES, Model, State, Step, explore, told
from tests.store.units import Run

PATHS, LONGEST, SEED = 30, 30, 20261116
TICK_S = LEASE_MS / 1000 / LEASE
YEAR_MS = 365 * 86_400_000


@pytest.mark.parametrize("one_host", [True, False])
def test_the_rules_hold_in_every_state(one_host: bool) -> None:
    explored = explore(Model(one_host=one_host))
    print(f"one host: {one_host}; {explored}")
    assert explored.broken is None, explored
    assert explored.states > 10_000


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_left_out_is_missed(rule: str) -> None:
    explored = explore(Model(rule))
    print(f"without “{rule}” ({RULES[rule]}): {explored}")
    assert explored.broken is not None, "the model does not need this rule: it is no rule, or the model is too small"
    assert 0 < len(explored.trace) <= 10


class WanderingClock(FixedClock):
    """One executor's clocks: time that all share, and what its wall says of it."""

    def __init__(self, ticks: list[int]) -> None:
        super().__init__()
        self.ticks = ticks
        self.wall = 0

    def now_ms(self) -> int:
        return super().now_ms() + round(self.ticks[0] * TICK_S * 1000) + self.wall * YEAR_MS

    def monotonic(self) -> float:
        return self.ticks[0] * TICK_S


class Real:
    """The store in the place of the model: each executor has a connection, a clock and a memory of its own."""

    def __init__(self, folder: Path) -> None:
        self.path, self.ticks = str(folder / "store.db"), [0]
        self.run = Run("run-1")
        self.clocks = [WanderingClock(self.ticks), WanderingClock(self.ticks)]
        self.stores = [self.open(0), self.open(1)]
        self.leases: list[Lease | None] = [None, None]
        unit, taken = self.run.unit()
        begun = self.stores[0].append(unit, None, owner="maker")
        taken(begun)
        self.stores[0].release(begun.lease)
        self.start(0)

    def open(self, who: int) -> SqliteStore:
        return SqliteStore(self.path, clock=self.clocks[who])

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def follow(self, step: Step) -> str:
        """Do what the model did; what came of it."""
        if step.action == "tick":
            self.ticks[0] += 1
            return ""
        if step.action == "break":
            return "broken" if self.stores[0].break_lease("run-1", who="sre", reason="stuck") else "nobody has it"
        assert step.who is not None
        self.clocks[step.who].wall = step.state.executors[step.who].wall
        return str(getattr(self, step.action, lambda _: step.result)(step.who))

    def start(self, who: int) -> str:
        self.stores[who].close()
        self.stores[who], self.leases[who] = self.open(who), None
        return ""

    def acquire(self, who: int) -> str:
        try:
            self.leases[who] = self.stores[who].acquire("run-1", f"host-{who}|7|1|nonce")
        except LockAcquireFailed:
            return "refused"
        return "taken"

    def renew(self, who: int) -> str:
        kept = self.stores[who].renew([self.lease(who)])
        self.leases[who] = kept[0] if kept else None
        return "renewed" if kept else "refused"

    def commit(self, who: int) -> str:
        unit, taken = self.run.unit()
        try:
            taken(self.stores[who].append(unit, self.lease(who)))
        except ConcurrentExecution:
            self.leases[who] = None
            return "refused"
        return "committed"

    def dispatch(self, who: int) -> str:
        """As a run does right before it sends."""
        journal = SimpleNamespace(lease=self.lease(who))
        run = SimpleNamespace(journal=journal, store=self.stores[who], clock=self.clocks[who], run_id="run-1")
        try:
            RuntimeRun.keep_lease(cast("Any", run))
        except ConcurrentExecution:
            self.leases[who] = None
            return "refused"
        self.leases[who] = journal.lease
        return "sent"

    def release(self, who: int) -> str:
        self.stores[who].release(self.lease(who))
        self.leases[who] = None
        return "free" if self.row()[0] is None else "left"

    def lease(self, who: int) -> Lease:
        lease = self.leases[who]
        assert lease is not None
        return lease

    def row(self) -> tuple[int | None, int]:
        owner, token = self.stores[0]._reader().query("SELECT owner, token FROM runs")[0]
        return None if owner is None else int(owner.split("|")[0][-1]), token


def test_the_store_does_what_the_model_does(tmp_path: Path) -> None:
    """On paths that are drawn at random: the same answers, the same holder, the same token, step by step."""
    rng, model, seen = random.Random(SEED), Model(one_host=False), 0
    for number in range(PATHS):
        folder = tmp_path / str(number)
        folder.mkdir()
        real, state, path = Real(folder), State(), []
        for _ in range(LONGEST):
            step = rng.choice(list(model.steps(state)))
            path.append(told(step))
            came, left = real.follow(step), step.result
            if step.action == "release" and state.row.owner is None:
                came = left = ""  # it was free already: nobody can tell
            assert came == left, (number, path)
            state = step.state
            assert real.row() == (state.row.owner, state.row.token), (number, path)
            seen += 1
        real.close()
    print(f"{PATHS} paths, {seen} steps: the store and the model agree")
