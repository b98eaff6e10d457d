"""The schema of a store: made where there is none, and refused where it is of another version or of something else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from reenact.errors import StoreUnavailable, StoreVersionError
from reenact.store.copying.tables import FILLING, moved_says
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.opened.shared import database_at, leave
from reenact.values.clock import Clock

__all__ = ["moved_says"]

CLIENT = 1
"""What this version of reenact is to the store: one whose `oldest_client` is greater is not written to."""
TABLES = (
    "SELECT count(*) FILTER (WHERE c.relname = ANY(%s)), count(*) FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v')"
)
OURS = ["store", "runs", "commits", "payloads", "seals"]
ENCRYPTED_WITH = "encrypted_with:"
"""What the name of a key is kept with, by which a value was encrypted."""
SAYS = (
    "SELECT key, value FROM :schema.store "
    "WHERE key IN ('store_id', 'schema', 'oldest_client', 'copied_from', 'copied_as_new', 'moving_to', 'moved_to')"
)


@cache
def scripts() -> list[tuple[int, str]]:
    """(number, SQL), in order."""
    found = [
        (int(item.name[:4]), item.read_text(encoding="utf-8"))
        for item in files("reenact.store.postgres").joinpath("sql").iterdir()
        if item.name.endswith(".sql")
    ]
    return sorted(found)


def latest() -> int:
    return scripts()[-1][0]


def is_there(database: Database) -> bool:
    """Whether there is a store; StoreUnavailable for a schema that holds something else."""
    ((ours, all_of_them),) = database.ask(TABLES, (OURS, database.place.schema))
    if all_of_them and ours != len(OURS):
        raise StoreUnavailable(
            f"schema {database.place.schema} of {database.place.shown} holds other tables and no store of reenact; "
            "name another one: ?schema=NAME"
        )
    return bool(ours)


def missing_at(url: str) -> str | None:
    """The place where there is no store yet; None where there is one."""
    database = database_at(url)
    try:
        return None if is_there(database) else database.place.shown
    finally:
        leave(database)


def open_schema(database: Database, clock: Clock, *, to_read: bool) -> dict[str, str]:
    """What the store says of itself; made first where there is none, unless it is only to be read."""
    if not is_there(database):
        if to_read:
            raise StoreUnavailable(f"there is no store at {database.place.shown}; `reenact run PLAN` makes one")
        store_id, secret = clock.uuid7(), clock.random_bytes(32)
        database.transact(lambda db: make(db, database.place.schema, store_id, secret))
    said = dict(database.ask(SAYS))
    refuse_other_version(said, database.place.shown)
    return said


def refuse_other_version(said: dict[str, str], shown: str) -> None:
    if "store_id" not in said:
        refuse_unfinished(said, shown)
    there, oldest = (number(said.get(name)) for name in ("schema", "oldest_client"))
    if there is None or oldest is None or "store_id" not in said:
        raise StoreUnavailable(f"{shown} does not say which store it is: restore a backup, or see `reenact doctor`")
    if there < latest():
        raise StoreVersionError(
            f"{shown} has schema {there}, and this version of reenact writes {latest()}: "
            "`reenact db upgrade` brings it up to date"
        )
    if there > latest() and oldest > CLIENT:
        raise StoreVersionError(
            f"{shown} has schema {there}, this version of reenact knows {latest()}: upgrade reenact to use it"
        )


def refuse_unfinished(said: dict[str, str], shown: str) -> None:
    """StoreUnavailable for the copy of a store that is not whole."""
    if FILLING in said:
        raise StoreUnavailable(f"{shown} is a copy that is not whole yet: say `reenact db copy` again, as it was said")


def number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def make(db: Asks, schema: str, store_id: str, secret: bytes) -> None:
    """All scripts and the identity of the store, at once, by one process of all that open it first."""
    if make_tables(db, schema):
        db.ask("INSERT INTO :schema.key_secret (secret) VALUES (%s)", (secret,))
        db.ask("INSERT INTO :schema.store VALUES ('store_id', %s)", (store_id,))


def make_tables(db: Asks, schema: str) -> bool:
    """All scripts; False where somebody was faster."""
    db.ask("SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%s, 1))", (f"reenact {schema}",))
    ((ours, _),) = db.ask(TABLES, (OURS, schema))
    if ours:
        return False
    if not db.ask("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (schema,)):
        db.ask("CREATE SCHEMA :schema")
    for _, script in scripts():
        db.ask(script)
    for key, value in (("schema", str(latest())), ("oldest_client", "1")):
        db.ask("INSERT INTO :schema.store VALUES (%s, %s)", (key, value))
    return True
