"""Clocks before 1970 and beyond 9999."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Runtime
from reenact.errors import LockAcquireFailed, UsageError
from reenact.store.doctor.examine import examine
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import SystemClock, format_ts
from tests.store.units import Run


class OddYears(SystemClock):
    """A machine whose clock was never set, or set wildly."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms

    def timestamp(self) -> str:
        return format_ts(self.ms)


@pytest.mark.parametrize("ms", [-86_400_000, 253_402_300_800_000])
def test_a_clock_beyond_the_years_that_are_written_is_told_in_one_line(tmp_path: Path, ms: int) -> None:
    """Nothing is recorded by it; what was is still read, printed and taken over."""
    path = str(tmp_path / "store.db")
    plan: dict[str, object] = {"plan_id": "p", "agent_id": "a", "steps": []}
    with pytest.raises(UsageError, match="set it"):
        Runtime(path, clock=OddYears(ms)).run(plan)
    clock = OddYears(SystemClock().now_ms())
    store = SqliteStore(path, clock=clock)
    run = Run("run-1")
    unit, _ = run.unit()
    lease = store.append(unit, None, owner="elsewhere|7|1|x").lease
    clock.ms = ms
    (kept,) = store.renew([lease])
    with pytest.raises(LockAcquireFailed, match="last sign of life") as told:
        SqliteStore(path).acquire("run-1", "me")
    assert "no time between the years 1970 and 9999" in str(told.value)
    assert [found for found in examine(path, OddYears(ms)) if found.subject == "clock"]
    assert store.unattended() == frozenset()
    store.release(kept)
    assert SqliteStore(path).acquire("run-1", "me").token == 2
