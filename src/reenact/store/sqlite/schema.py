"""Tables, indexes, views and triggers of a store file, held against those that the migrations make."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache

from reenact.store.copying.tables import MOVED, MOVING, moved_says
from reenact.store.sqlite.copied.guards import moved_guards
from reenact.store.sqlite.migrations import migrations, statements
from reenact.store.sqlite.trouble.database_errors import DATABASE_ERRORS


@dataclass(frozen=True, slots=True)
class Part:
    """A table, an index, a view or a trigger."""

    kind: str
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Alteration:
    """A part that is missing, another than reenact makes, or none of reenact's."""

    made: Part | None
    found: Part | None

    @property
    def is_of_table(self) -> bool:
        """Then what is read from it may be anything."""
        return self.made is not None and self.made.kind == "table"

    @property
    def says(self) -> str:
        if self.made is None:
            assert self.found is not None
            return f"the {self.found.kind} {self.found.name} is none of reenact's"
        if self.found is None:
            return f"the {self.made.kind} {self.made.name} is not there: somebody took it off"
        if self.found.kind != self.made.kind:
            return f"{self.made.name} is a {self.found.kind}, and reenact made it a {self.made.kind}"
        return f"the {self.made.kind} {self.made.name} is another than reenact made"


def alterations(db: sqlite3.Connection, version: int) -> Iterator[Alteration]:
    """In comparison with what the migrations up to `version` make, and what a store has that was copied elsewhere."""
    wanted, there = as_made(version) | guards_of_moved(db), parts_of(db)
    for name, part in wanted.items():
        if there.get(name) != part:
            yield Alteration(part, there.get(name))
    for name, part in there.items():
        if name not in wanted:
            yield Alteration(None, part)


@lru_cache(maxsize=4)
def as_made(version: int) -> dict[str, Part]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for number, script in migrations():
            if number <= version:
                for statement in statements(script):
                    db.execute(statement)
        return parts_of(db)


def moved_to(db: sqlite3.Connection) -> str | None:
    """What a store says that was copied elsewhere, or is being."""
    try:
        return moved_says(dict(db.execute("SELECT key, value FROM store WHERE key IN (?, ?)", (MOVING, MOVED))))
    except DATABASE_ERRORS:
        return None  # it has no such table, or another one


def guards_of_moved(db: sqlite3.Connection) -> dict[str, Part]:
    """What keeps everybody from writing to it."""
    found = moved_guards(says) if (says := moved_to(db)) else {}
    return {name: Part("trigger", name, " ".join(sql.split())) for name, sql in found.items()}


def parts_of(db: sqlite3.Connection) -> dict[str, Part]:
    rows = db.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'")
    return {str(name): Part(str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows}
