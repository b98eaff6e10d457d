"""Replays: recorded runs made again by the same engine, over the recording, the world or a simulation, and compared.

In: a run of a store or an exported folder. Out: a `ReplayResult`, a value that tells "failed" from "differed". Begin to
read with `api.py` and `modes/mock.py`; where effects come from is `sources/`, how runs are compared `compare/`, what a
plan would do before it runs `forecast/`. `runtime.py` is `reenact.Runtime`, the public face of the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact.lazy import loading

if TYPE_CHECKING:
    from reenact.record.recording import Recording, load_recording
    from reenact.replay.api import replay, replay_async
    from reenact.replay.compare.compare import Comparison, Difference
    from reenact.replay.compare.sides import side_by_side
    from reenact.replay.modes.changes import Changes, apply_changes
    from reenact.replay.result import ReplayResult
    from reenact.replay.runtime import Runtime

# name → module. Loaded when first asked for: whoever only runs plans does not pay for replays.
_HOME = {
    "Changes": "reenact.replay.modes.changes",
    "Comparison": "reenact.replay.compare.compare",
    "Difference": "reenact.replay.compare.compare",
    "Recording": "reenact.record.recording",
    "ReplayResult": "reenact.replay.result",
    "Runtime": "reenact.replay.runtime",
    "apply_changes": "reenact.replay.modes.changes",
    "load_recording": "reenact.record.recording",
    "replay": "reenact.replay.api",
    "replay_async": "reenact.replay.api",
    "side_by_side": "reenact.replay.compare.sides",
}

__all__ = [
    "Changes",
    "Comparison",
    "Difference",
    "Recording",
    "ReplayResult",
    "Runtime",
    "apply_changes",
    "load_recording",
    "replay",
    "replay_async",
    "side_by_side",
]

__getattr__ = loading(__name__, _HOME)
