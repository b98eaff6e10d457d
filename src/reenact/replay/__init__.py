"""Facts made again: the same drive over the recording, the world, or a simulation, and what it comes to."""

from __future__ import annotations

from reenact.replay.api import replay, replay_async
from reenact.replay.compare import Comparison, Difference, compare
from reenact.replay.recording import Recording, load_recording
from reenact.replay.result import ReplayResult

__all__ = [
    "Comparison",
    "Difference",
    "Recording",
    "ReplayResult",
    "compare",
    "load_recording",
    "replay",
    "replay_async",
]
