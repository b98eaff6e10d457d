"""Replay a run of a store, or an exported folder: the public functions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reenact.errors import UsageError
from reenact.record.bundle import is_bundle, load_bundle
from reenact.record.recording import Recording, load_recording
from reenact.replay.modes.dry import dry_run
from reenact.replay.modes.full import full_replay
from reenact.replay.modes.mock import mock_replay
from reenact.replay.modes.notes import tell_compared
from reenact.replay.modes.saving import save_report
from reenact.replay.result import ReplayResult
from reenact.runtime.effects.coroutines import run_sync
from reenact.runtime.engine import Engine
from reenact.skills.registry import Registry, default_registry
from reenact.store.base import Store

MODES = ("mock_replay", "full_replay", "dry_run")


def replay(
    where: Engine | Store,
    run: str | Path,
    *,
    mode: str = "mock_replay",
    registry: Registry | None = None,
    execute: Iterable[str] = (),
    skip: Iterable[str] = (),
    check: Iterable[str] = (),
    retry_failed: bool = False,
    allow_breakers: bool = False,
    save: bool = False,
    trust_plan: bool = False,
) -> ReplayResult:
    """Replay a recorded run; see `replay_async`."""
    return run_sync(
        replay_async(
            where,
            run,
            mode=mode,
            registry=registry,
            execute=execute,
            skip=skip,
            check=check,
            retry_failed=retry_failed,
            allow_breakers=allow_breakers,
            save=save,
            trust_plan=trust_plan,
        )
    )


async def replay_async(
    where: Engine | Store,
    run: str | Path,
    *,
    mode: str = "mock_replay",
    registry: Registry | None = None,
    execute: Iterable[str] = (),
    skip: Iterable[str] = (),
    check: Iterable[str] = (),
    retry_failed: bool = False,
    allow_breakers: bool = False,
    save: bool = False,
    trust_plan: bool = False,
) -> ReplayResult:
    """Run a recorded plan again and compare, aspect by aspect. A difference is a value, never an exception.

    `run` is a run's id or the beginning of one, or the path of an exported folder. `execute`, `skip`, `check` and
    `retry_failed` are for full_replay, and so is `trust_plan`, without which nothing of a folder is called; `save`
    keeps the report of a mock replay in the store. Raises only where nothing may be replayed at all: `EvidenceError`
    for a recording that is cut, edited, newer, or has no end yet, `DeterminismBroken` before anything runs live that is
    not what was recorded, `UntrustedPlan` and `BeyondPolicy` before anything runs live that nobody has allowed.
    """
    if mode not in MODES:
        raise UsageError(f"there is no replay mode {mode!r}; one of {', '.join(MODES)}")
    execute, skip, check = tuple(execute), tuple(skip), tuple(check)
    if mode != "full_replay" and (execute or skip or check or retry_failed):
        raise UsageError(
            "execute, skip, check and retry_failed are for full_replay: nothing is executed in the other modes"
        )
    if save and mode != "mock_replay":
        raise UsageError(
            "only a mock replay needs to be saved: a full replay is a run of its own, a dry run made nothing"
        )
    recording = load(where, run)
    skills = where.registry if isinstance(where, Engine) else (registry or default_registry())
    if mode == "dry_run":
        return await dry_run(recording, skills)
    if mode == "full_replay":
        engine = where if isinstance(where, Engine) else Engine(where, skills=skills)
        return await full_replay(
            engine,
            recording,
            execute=execute,
            skip=skip,
            check=check,
            retry_failed=retry_failed,
            allow_breakers=allow_breakers,
            trust_plan=trust_plan,
        )
    result = await mock_replay(recording, skills)
    if save:
        store = where.store if isinstance(where, Engine) else where
        await save_report(store, recording, result)
    return tell_compared(where.listeners, result) if isinstance(where, Engine) else result


def load(where: Engine | Store, run: str | Path) -> Recording:
    """The recording under a run's id or prefix, or in a folder."""
    if isinstance(run, Path) or is_bundle(run):
        return load_bundle(Path(run))
    return load_recording(where.store if isinstance(where, Engine) else where, run)
