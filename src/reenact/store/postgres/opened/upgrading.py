"""Brings a store in a database to the schema of this version: script by script, each in a transaction of its own.

The first line of a script says of which kind it is. With an additive one older clients go on beside newer ones; before
an exclusive one every run has to be at rest, and it says from which client on the store may be written to.
"""

from __future__ import annotations

import re
from typing import Final

from reenact.errors import LockAcquireFailed, StoreVersionError
from reenact.store.owner import owner_is_gone, process_of
from reenact.store.postgres.opened.database import Asks, Database
from reenact.store.postgres.opened.schema import SAYS, is_there, latest, number, open_schema, scripts
from reenact.store.postgres.writing.leases import OPEN_RUN
from reenact.values.clock import Clock

KIND: Final = re.compile(r"-- (additive|exclusive)\b")
MINUTES: Final = 1 << 31
"""As many bytes as a script is given time for: a large table takes its."""


def upgrade(database: Database, clock: Clock) -> tuple[int, int]:
    """(the number of the schema that was there, 0 where there was no store and one was made; the number now)"""
    if not is_there(database):
        open_schema(database, clock, to_read=False)
        return 0, latest()
    before = version(database)
    if before > latest():
        raise StoreVersionError(
            f"{database.place.shown} has schema {before}, this version of reenact knows {latest()}: upgrade reenact"
        )
    for each, script in scripts():
        if each > before:
            bring(database, each, script)
    return before, latest()


def bring(database: Database, to: int, script: str) -> None:
    database.transact(lambda db: apply(db, database.place.schema, to, script), size=MINUTES)


def version(db: Asks) -> int:
    return number(dict(db.ask(SAYS)).get("schema")) or 0


def apply(db: Asks, schema: str, to: int, script: str) -> None:
    """Unless somebody was faster."""
    db.ask("SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%s, 1))", (f"reenact {schema}",))
    if version(db) >= to:
        return
    kind = KIND.match(script)
    if kind is None or kind[1] == "exclusive":
        refuse_held(db)
    db.ask(script, size=MINUTES)
    db.ask("UPDATE :schema.store SET value = %s WHERE key = 'schema'", (str(to),))


def refuse_held(db: Asks) -> None:
    """LockAcquireFailed while somebody works on a run; from here on nobody takes one up before the transaction ends."""
    db.ask("LOCK TABLE :schema.runs IN SHARE ROW EXCLUSIVE MODE")
    held = db.ask(f"SELECT {OPEN_RUN} AND owner IS NOT NULL AND expires_ms > :schema.now_ms()")
    for run_id, _, _, owner, *_ in held:
        if not owner_is_gone(owner):
            raise LockAcquireFailed(
                f"run {run_id} is being worked on by {process_of(owner)}, and this upgrade needs every run at rest: "
                "stop what works on the store, and say it again; nothing was changed"
            )
