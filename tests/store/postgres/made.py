"""Writes what the scripts of a PostgreSQL store make, as its catalogs say: `python -m tests.store.postgres.made`."""

from __future__ import annotations

import json
from pathlib import Path

import reenact.store.postgres
from reenact.store.postgres.evidence.guards import parts_of
from reenact.store.postgres.opened.database import Database
from reenact.store.postgres.opened.schema import open_schema
from reenact.store.postgres.opened.url import place_of
from reenact.values.clock import SystemClock
from tests.postgres.fixtures import schema_at
from tests.postgres.server import Server

PLACE = Path(reenact.store.postgres.__file__).parent / "sql" / "made.json"


def made_at(url: str) -> str:
    """Of a store that is made there."""
    database = Database(place_of(url))
    try:
        open_schema(database, SystemClock(), to_read=False)
        return json.dumps(parts_of(database, database.place.schema), indent=1, sort_keys=True) + "\n"
    finally:
        database.close()


if __name__ == "__main__":
    with Server() as server, schema_at(server.url()) as url:
        PLACE.write_text(made_at(url), encoding="utf-8")
