"""What a doctor says of tables, indexes and triggers that are not as reenact made them."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator

from reenact.store.doctor.findings import Finding, Verdict, flat
from reenact.store.sqlite.schema import Alteration, alterations, moved_to

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def look_at_schema(db: sqlite3.Connection, path: str, version: int) -> Iterator[Finding]:
    """What is missing, changed or added in comparison with what the migrations up to `version` make."""
    for alteration in alterations(db, version):
        verdict: Verdict = "trouble" if alteration.is_of_table else "warning"
        yield Finding("schema", verdict, flat(alteration.says), advice(alteration, path))


def look_where_it_went(db: sqlite3.Connection) -> Iterator[Finding]:
    """Of a store that was copied elsewhere, or is being."""
    says = moved_to(db)
    if says is not None:
        yield Finding("store", "note", flat(says))


def advice(alteration: Alteration, path: str) -> str:
    made, found = alteration.made, alteration.found
    if alteration.is_of_table:
        return f"copy {path} away, then restore a backup"
    if made is not None and found is None:
        again = shlex.join(["sqlite3", path, made.sql])
        return f"`reenact verify` the runs that matter, then put it back: {again}"
    if made is None and found is not None and PLAIN_NAME.fullmatch(found.name):
        # The name is somebody else's word: one that could be more than a name is put into no command.
        return f"take it out: {shlex.join(['sqlite3', path, f'DROP {found.kind} {found.name}'])}"
    return "`reenact verify` the runs that matter, then restore a backup"
