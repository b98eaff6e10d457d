"""Tables, indexes and triggers of a store file, held against those that reenact makes."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from reenact.store.doctor.findings import Finding
from reenact.store.sqlite.migrations import migrations, statements


@dataclass(frozen=True, slots=True)
class Part:
    """A table, an index or a trigger."""

    kind: str
    name: str
    sql: str


def look_at_schema(db: sqlite3.Connection, path: str, version: int) -> Iterator[Finding]:
    """What is missing, changed or added in comparison with what the migrations up to `version` make."""
    wanted, there = parts_of(as_made(version)), parts_of(db)
    for name, part in wanted.items():
        found = there.get(name)
        if found == part:
            continue
        how = "is not there: somebody took it off" if found is None else "is another than reenact made"
        says = f"the {part.kind} {name} {how}"
        if part.kind == "table":
            yield Finding("schema", "trouble", says, f"copy {path} away, then restore a backup")
        elif found is None:
            again = shlex.join(["sqlite3", path, part.sql])
            yield Finding(
                "schema", "warning", says, f"`reenact verify` the runs that matter, then put it back: {again}"
            )
        else:
            yield Finding("schema", "warning", says, "`reenact verify` the runs that matter, then restore a backup")
    for name, part in there.items():
        if name not in wanted:
            drop = shlex.join(["sqlite3", path, f"DROP {part.kind} {name}"])
            yield Finding("schema", "warning", f"the {part.kind} {name} is none of reenact's", f"take it out: {drop}")


def as_made(version: int) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for number, script in migrations():
        if number <= version:
            for statement in statements(script):
                db.execute(statement)
    return db


def parts_of(db: sqlite3.Connection) -> dict[str, Part]:
    rows = db.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'")
    return {name: Part(kind, name, " ".join(str(sql).split())) for kind, name, sql in rows}
