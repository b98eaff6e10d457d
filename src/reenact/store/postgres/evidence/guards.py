"""Tables, triggers and functions of a store, held against those that its scripts make.

What they make is kept in `made.json`, as the catalogs tell of it, so that who may only read can compare, also on a
replica.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from reenact.store.copying.tables import MOVED, MOVING, moved_says
from reenact.store.postgres.copied.guards import as_catalogued
from reenact.store.postgres.opened.database import Asks

PARTITION = re.compile(r"(commits|payloads|traces|contents|shared_payloads|run_checkpoints)_[0-9]+")
Parts = dict[str, str]
"""(kind and name) → how it is made"""
COLUMNS = (
    "SELECT c.relname, c.relkind::text, c.relispartition, string_agg("
    "a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || "
    "CASE WHEN a.attnotnull THEN ' not null' ELSE '' END, ', ' ORDER BY a.attnum) FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_attribute a "
    "ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') GROUP BY 1, 2, 3"
)
TRIGGERS = (
    "SELECT c.relname, t.tgname, p.proname, t.tgtype::integer, t.tgenabled::text, encode(t.tgargs, 'escape') "
    "FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid "
    "WHERE n.nspname = %s AND NOT t.tgisinternal AND t.tgparentid = 0"
)
PARTS_OF_TRIGGERS = (
    "SELECT c.relname, t.tgname FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND t.tgparentid <> 0 "
    "AND t.tgenabled <> 'O'"
)
FUNCTIONS = (
    "SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', p.prosrc FROM pg_catalog.pg_proc p "
    "JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %s"
)
RULES = (
    "SELECT c.relname, r.rulename FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind IN ('r', 'p')"
)


class Alteration(NamedTuple):
    """A part that is missing, another than reenact makes, or none of reenact's."""

    kind: str
    name: str
    says: str

    @property
    def is_of_table(self) -> bool:
        """Then what is read from it may be anything."""
        return self.kind == "table"


def alterations(db: Asks, schema: str) -> Iterator[Alteration]:
    wanted, there = as_made() | guards_of_moved(db), parts_of(db, schema)
    for key, made in wanted.items():
        kind, _, name = key.partition(" ")
        found = there.get(key)
        if found is None and f"partition {name.rpartition(' ')[2]}" in there:
            continue  # it is told of the partition
        if found is None and PARTITION.fullmatch(name):
            yield Alteration("partition", name, f"the partition {name} is not there: what it held is not read here")
        elif found is None:
            yield Alteration(kind, name, f"the {kind} {name} is not there: somebody took it off")
        elif found != made:
            yield Alteration(kind, name, f"the {kind} {name} is another than reenact made")
    for key in there:
        kind, _, name = key.partition(" ")
        if kind == "partition":
            yield Alteration(kind, name, f"the partition {name} was detached: what it holds is not read here")
        elif key not in wanted:
            yield Alteration(f"other {kind}", name, f"the {kind} {name} is none of reenact's")


def guards_of_moved(db: Asks) -> Parts:
    """What keeps everybody from writing to a store that says that it goes elsewhere, or went."""
    says = moved_says(dict(db.ask("SELECT key, value FROM :schema.store WHERE key IN (%s, %s)", (MOVING, MOVED))))
    return {f"trigger {name}": made for name, made in as_catalogued(says).items()} if says else {}


@cache
def as_made() -> Parts:
    text = files("reenact.store.postgres").joinpath("sql", "made.json").read_text(encoding="utf-8")
    return msgspec.json.decode(text, type=Parts)


def parts_of(db: Asks, schema: str) -> Parts:
    """As the catalogs tell of them, without the name of the schema."""
    own = f'"{schema}"'
    found: Parts = {}
    detached = set()
    for name, kind, is_attached, columns in db.ask(COLUMNS, (schema,)):
        word = "table" if kind in ("r", "p") else "view"
        base, _, number = name.rpartition("_")
        if kind == "r" and not is_attached and PARTITION.fullmatch(name):
            found[f"partition {name}"] = "detached"
            detached.add(name)
            continue
        if number.isdigit() and int(number) > 1 and base:  # a partition that was added later is made like the first
            if columns != found.get(f"table {base}_0", columns):
                found[f"table {name}"] = columns
            continue
        found[f"{word} {name}"] = columns or ""
    for table, name, function, kind, enabled, arguments in db.ask(TRIGGERS, (schema,)):
        base, _, number = table.rpartition("_")
        if table not in detached and not (number.isdigit() and int(number) > 1 and base):
            place = name if not number.isdigit() else f"{name} of {table}"
            found[f"trigger {place}"] = f"{function} {kind} {enabled} {arguments}"
    for table, name in db.ask(PARTS_OF_TRIGGERS, (schema,)):
        found[f"trigger {name} of {table}"] = "is off"
    for name, source in db.ask(FUNCTIONS, (schema,)):
        found[f"function {name}"] = " ".join(source.replace(own, ":schema").split())
    for table, name in db.ask(RULES, (schema,)):
        found[f"rule {name} of {table}"] = ""
    return found
