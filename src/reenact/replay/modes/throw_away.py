"""A temporary engine in memory, for replays that are not kept."""

from __future__ import annotations

from reenact.replay.sources.instant import InstantClock
from reenact.runtime.engine import Engine
from reenact.runtime.gates.supervisor import Proposal
from reenact.skills.registry import Registry
from reenact.store.open import in_memory
from reenact.values.clock import Clock, SystemClock


def throw_away_engine(registry: Registry, clock: Clock | None) -> Engine:
    """Time is told by `clock`, the system's by default; it passes at once."""
    clock = InstantClock(clock or SystemClock())
    return Engine(in_memory(), skills=registry, supervisor=nobody, clock=clock)


def nobody(proposal: Proposal) -> bool:
    """No function is asked in a replay: what it said stands in the record."""
    raise AssertionError(f"step {proposal.step_id}: a supervisor was asked in a replay")
