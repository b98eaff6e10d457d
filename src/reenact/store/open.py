"""Opens a store by its URL: the one place that knows which engines there are.

Each takes a URL, a path, or None for the store that `REENACT_STORE` names or that lies in the user's data directory.
An engine's modules are loaded when it is used.
"""

from __future__ import annotations

from pathlib import Path

from reenact.errors import UsageError
from reenact.store.base import Store
from reenact.store.copying.sides import Source, Target
from reenact.store.doctor.examination import Examination
from reenact.store.evidence import Evidence
from reenact.store.location import postgres_url, sqlite_path
from reenact.store.log.witnessed import Witnessed
from reenact.values.clock import Clock

Url = str | Path | None


def open_store(url: Url = None, *, clock: Clock | None = None, to_read: bool = False) -> Store:
    """A store, made if there is none. `to_read` opens it also where nothing can be written: then writing raises."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.store(place, clock, to_read=to_read)
    from reenact.store.sqlite.store import SqliteStore

    return SqliteStore(named(url), clock=clock, to_read=to_read)


def in_memory(clock: Clock | None = None) -> Store:
    """A store of this process alone, gone with it."""
    return open_store(":memory:", clock=clock)


def open_evidence(url: Url = None) -> Evidence:
    """What lies in a store, to be verified or exported. Nothing of it is trusted, and nothing written."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.evidence(place)
    from reenact.store.sqlite.evidence.evidence import open_evidence

    return open_evidence(sqlite_path(named(url)))


def open_examination(url: Url = None) -> Examination:
    """A store as `reenact doctor` looks at it: also one that is damaged, or not there."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.examination(place)
    from reenact.store.sqlite.doctor.examination import SqliteExamination

    return SqliteExamination(sqlite_path(named(url)))


def upgrade(url: Url = None) -> tuple[int, int]:
    """Bring a store to the schema of this version, made where there is none: (the number before, 0 for none; now)."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.upgrade(place)
    from reenact.store.sqlite.read_only import version_at

    path = sqlite_path(named(url))
    before = 0 if missing(url) is not None else version_at(path)
    open_store(url).close()
    return before, version_at(path)


def grants(url: Url, **roles: str) -> str:
    """A script for an administrator, that gives each role its rights."""
    place = postgres_url(named(url))
    if place is None:
        raise UsageError("a store in a file has no roles: the modes of its files say who may read and write it")
    from reenact.store.postgres import engine

    return engine.grants(place, roles)


def open_source(url: Url = None) -> Source:
    """A store that is there, to be copied elsewhere."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.source(place)
    from reenact.store.sqlite.copied.source import SqliteSource

    path = str(Path(sqlite_path(named(url))).absolute())
    return SqliteSource(path, f"sqlite:///{path}")


def open_target(url: Url) -> Target:
    """A place where there is no store yet, to copy one to."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.target(place)
    from reenact.store.sqlite.copied.target import SqliteTarget

    path = str(Path(sqlite_path(named(url))).absolute())
    return SqliteTarget(path, f"sqlite:///{path}")


def missing(url: Url = None) -> str | None:
    """The place where there is no store yet; None when there is something to open, if only what is left of one."""
    place = postgres_url(named(url))
    if place is not None:
        from reenact.store.postgres import engine

        return engine.missing(place)
    path = sqlite_path(named(url))
    is_there = path == ":memory:" or Path(path).exists() or Path(f"{path}-wal").exists()
    return None if is_there else path


def named(url: Url) -> str | None:
    return None if url is None else str(url)


def open_witnessed(path: Path, *, name: str | None = None) -> Witnessed:
    """What a witness remembers; `name` is that of a new one."""
    from reenact.store.sqlite.log.witnessed import SqliteWitnessed

    return SqliteWitnessed(str(path), name=name)
