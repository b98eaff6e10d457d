"""A temporary engine in memory, for replays that are not kept."""

from __future__ import annotations

from reenact.contracts.host_policy import Policy
from reenact.replay.sources.instant import InstantClock
from reenact.runtime.engine import Engine
from reenact.runtime.gates.supervisor import Proposal
from reenact.skills.registry import Registry
from reenact.store.base import Store
from reenact.store.open import in_memory
from reenact.values.clock import Clock, SystemClock


def throw_away_engine(registry: Registry, clock: Clock | None, recorded_in: Store | None = None) -> Engine:
    """Time is told by `clock`, the system's by default; it passes at once.

    What is encrypted in the store `recorded_in` can be opened, and is encrypted alike.
    """
    clock, store = InstantClock(clock or SystemClock()), in_memory()
    if recorded_in is not None and recorded_in.encryption_file is not None:
        store.encryption_file = recorded_in.encryption_file.in_memory()
    return Engine(store, skills=registry, supervisor=nobody, policy=Policy(), clock=clock)


def nobody(proposal: Proposal) -> bool:
    """No function is asked in a replay: what it said stands in the record."""
    raise AssertionError(f"step {proposal.step_id}: a supervisor was asked in a replay")
