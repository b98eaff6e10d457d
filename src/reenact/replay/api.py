"""The entrances: replay a run of a store."""

from __future__ import annotations

from reenact.errors import UsageError
from reenact.replay.engine import mock_replay
from reenact.replay.recording import Recording, load_recording
from reenact.replay.result import ReplayResult
from reenact.runtime.runtime import Runtime, run_sync
from reenact.skills.registry import Registry, default_registry
from reenact.store.base import Store

MODES = ("mock_replay", "full_replay", "dry_run")


def replay(
    where: Runtime | Store,
    run: str,
    *,
    mode: str = "mock_replay",
    registry: Registry | None = None,
) -> ReplayResult:
    """Replay a recorded run; see `replay_async`."""
    return run_sync(replay_async(where, run, mode=mode, registry=registry))


async def replay_async(
    where: Runtime | Store,
    run: str,
    *,
    mode: str = "mock_replay",
    registry: Registry | None = None,
) -> ReplayResult:
    """Run a recorded plan again and compare, aspect by aspect. A difference is a value, never an exception.

    Raises only where nothing may be replayed at all: `EvidenceError` for a recording that is cut, edited, newer, or has
    no end yet.
    """
    if mode not in MODES:
        raise UsageError(f"there is no replay mode {mode!r}; one of {', '.join(MODES)}")
    store = where.store if isinstance(where, Runtime) else where
    skills = where.registry if isinstance(where, Runtime) else (registry or default_registry())
    recording: Recording = load_recording(store, run)
    return await mock_replay(recording, skills)
