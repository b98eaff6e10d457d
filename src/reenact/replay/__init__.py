"""Facts made again: the same drive over the recording, the world, or a simulation, and what it comes to."""

from __future__ import annotations

from reenact.replay.api import replay, replay_async
from reenact.replay.changes import Changes, apply_changes
from reenact.replay.compare import Comparison, Difference, compare
from reenact.replay.recording import Recording, load_recording
from reenact.replay.replaying import Runtime
from reenact.replay.result import ReplayResult
from reenact.replay.sides import side_by_side

__all__ = [
    "Changes",
    "Comparison",
    "Difference",
    "Recording",
    "ReplayResult",
    "Runtime",
    "apply_changes",
    "compare",
    "load_recording",
    "replay",
    "replay_async",
    "side_by_side",
]
