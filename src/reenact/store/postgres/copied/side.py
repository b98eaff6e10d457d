"""A store in a database as a side of a copy: what the one that is copied and the copy have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from reenact.store.copying.tables import Row, Table
from reenact.store.postgres.copied import rows as schema_rows
from reenact.store.postgres.evidence.evidence import PostgresEvidence, open_evidence
from reenact.store.postgres.opened.keys import keys_beside
from reenact.store.postgres.opened.schema import is_there
from reenact.store.postgres.opened.shared import database_at, leave


class PostgresSide:
    """`reenact.store.copying.sides.Side` of the schema that a URL names."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.database = database_at(url)
        self.shown = self.database.place.shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        leave(self.database)

    def says(self, name: str) -> str | None:
        return schema_rows.says(self.database, name) if is_there(self.database) else None

    def count(self, table: Table) -> int:
        return schema_rows.count(self.database, table)

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Row]:
        return schema_rows.rows(self.database, table, after)

    def evidence(self) -> PostgresEvidence:
        return open_evidence(self._url)

    def keys_at(self) -> Path:
        return keys_beside(self.says("store_id") or "")
