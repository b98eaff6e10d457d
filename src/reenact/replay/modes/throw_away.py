"""A temporary engine in memory, for replays that are not kept."""

from __future__ import annotations

from reenact.replay.sources.instant import InstantDoor
from reenact.runtime.engine import Engine
from reenact.runtime.gates.supervisor import Proposal
from reenact.skills.registry import Registry
from reenact.store.open import in_memory
from reenact.values.clock import Door, SystemDoor


def throw_away_engine(registry: Registry, door: Door | None) -> Engine:
    """Time is told by `door`, the system's by default; it passes at once."""
    door = InstantDoor(door or SystemDoor())
    return Engine(in_memory(), skills=registry, supervisor=nobody, door=door)


def nobody(proposal: Proposal) -> bool:
    """No function is asked in a replay: what it said stands in the record."""
    raise AssertionError(f"step {proposal.step_id}: a supervisor was asked in a replay")
