"""What this engine opens, by the URL of a store; what each of it needs is loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from reenact.errors import StoreUnavailable
from reenact.values.clock import Clock, SystemClock

try:
    import_module("psycopg")  # or the library that it stands on
except ImportError as error:
    raise StoreUnavailable(
        f"a store in a PostgreSQL database needs the extra postgres: pip install 'reenact[postgres]' ({error})"
    ) from None

if TYPE_CHECKING:
    from reenact.store.postgres.copied.source import PostgresSource
    from reenact.store.postgres.copied.target import PostgresTarget
    from reenact.store.postgres.doctor.examination import PostgresExamination
    from reenact.store.postgres.evidence.evidence import PostgresEvidence
    from reenact.store.postgres.store import PostgresStore


def store(url: str, clock: Clock | None, *, to_read: bool) -> PostgresStore:
    from reenact.store.postgres.store import PostgresStore

    return PostgresStore(url, clock=clock, to_read=to_read)


def evidence(url: str) -> PostgresEvidence:
    from reenact.store.postgres.evidence.evidence import open_evidence

    return open_evidence(url)


def examination(url: str) -> PostgresExamination:
    from reenact.store.postgres.doctor.examination import PostgresExamination

    return PostgresExamination(url)


def missing(url: str) -> str | None:
    from reenact.store.postgres.opened.schema import missing_at

    return missing_at(url)


def upgrade(url: str) -> tuple[int, int]:
    from reenact.store.postgres.opened.shared import database_at, leave
    from reenact.store.postgres.opened.upgrading import upgrade

    database = database_at(url)
    try:
        return upgrade(database, SystemClock())
    finally:
        leave(database)


def grants(url: str, roles: dict[str, str]) -> str:
    from reenact.store.postgres.roles.grants import Roles, grants

    return grants(url, Roles(**roles))


def source(url: str) -> PostgresSource:
    from reenact.store.postgres.copied.source import PostgresSource

    return PostgresSource(url)


def target(url: str) -> PostgresTarget:
    from reenact.store.postgres.copied.target import PostgresTarget

    return PostgresTarget(url)
