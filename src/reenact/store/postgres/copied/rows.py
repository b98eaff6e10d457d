"""The rows of a store in a database as a copy has them, and back: page by page, each within its deadline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from reenact.store.copying.tables import OWN, Row, Table
from reenact.store.postgres.opened.database import Asks

NUMBERS: Final = frozenset(
    (
        "run_no",
        "n",
        "k",
        "step_index",
        "commit_n",
        "token",
        "id",
        "size",
        "level",
        "index",
        "seen",
        "failures",
        "next_ms",
        "sealed",
    )
)
BYTES: Final = frozenset(
    (
        *(
            "dedupe_key",
            "body",
            "digest",
            "mac",
            "commitment",
            "content_key",
            "frontier",
            "result",
            "signature",
            "record",
        ),
        *("hash", "root", "line", "stamp", "note", "secret", "sums"),
    )
)
OTHERS: Final = {("kv", "value"): "bytea", ("notes", "digest"): "text", ("spending", "exact"): "numeric",
                 ("earmarks", "exact"): "numeric", ("key_secret", "id"): "boolean"}  # fmt: skip
READ: Final = {("spending", "exact"): "sum(exact)::text", ("earmarks", "exact"): "exact::text",
               ("key_secret", "id"): "1"}  # fmt: skip
FIRST_PAGE, LARGEST_PAGE, SMALLEST_PAGE = 64, 4096, 8
SMALL, LARGE = 1 << 20, 8 << 20
"""Of a page in bytes: below it the next one has more rows, beyond it fewer."""
PATIENCE: Final = 256 << 20
"""As many bytes as a page is given time for: counting, and values of 64 MiB, take theirs."""


def type_of(table: Table, column: str) -> str:
    """As the database calls it, wide enough for every column of this name."""
    other = OTHERS.get((table.name, column))
    if other is not None:
        return other
    return "bigint" if column in NUMBERS else "bytea" if column in BYTES else "text"


def name_of(table: Table, column: str) -> str:
    return "one" if (table.name, column) == ("key_secret", "id") else f'"{column}"'


def reads(table: Table) -> str:
    return ", ".join(READ.get((table.name, column), name_of(table, column)) for column in table.columns)


def count(db: Asks, table: Table) -> int:
    if table.name == "spending":
        sql = "SELECT count(*) FROM (SELECT DISTINCT day, agent_id, model FROM :schema.spending) s"
        return int(db.ask(sql)[0][0])
    where, values = ("WHERE key <> ALL(%s)", (list(OWN),)) if table.name == "store" else ("", ())
    return int(db.ask(f"SELECT count(*) FROM :schema.{table.name} {where}", values, size=PATIENCE)[0][0])


def rows(db: Asks, table: Table, after: Row | None) -> Iterator[Row]:
    page, key = FIRST_PAGE, after
    while True:
        found = db.ask(*paged(table, key, page), size=PATIENCE)
        yield from (tuple(row) for row in found)
        if len(found) < page:
            return
        key = table.key_of(tuple(found[-1]))
        size = sum(len(cell) for row in found for cell in row if isinstance(cell, bytes | str))
        if size < SMALL:
            page = min(page * 4, LARGEST_PAGE)
        elif size > LARGE:
            page = max(page // 8, SMALLEST_PAGE)


def paged(table: Table, after: Row | None, page: int) -> tuple[str, tuple[object, ...]]:
    """The statement that gives the next rows, and its values."""
    key = ", ".join(name_of(table, column) for column in table.key)
    where = ""
    if after is not None:
        places = ", ".join(f"%s::{type_of(table, column)}" for column in table.key)
        where = f"WHERE ({key}) > ({places})"
    grouped = f"GROUP BY {key}" if table.name == "spending" else ""
    sql = f"SELECT {reads(table)} FROM :schema.{table.name} {where} {grouped} ORDER BY {key} LIMIT %s"
    return sql, (*(bound(table, after) if after is not None else ()), page)


def bound(table: Table, key: Row) -> Row:
    return (True,) if table.name == "key_secret" else key


def last(db: Asks, table: Table) -> Row | None:
    key = ", ".join(name_of(table, column) for column in table.key)
    where, values = ("WHERE key <> ALL(%s)", (list(OWN),)) if table.name == "store" else ("", ())
    order = ", ".join(f"{name_of(table, column)} DESC" for column in table.key)
    found = db.ask(f"SELECT {key} FROM :schema.{table.name} {where} ORDER BY {order} LIMIT 1", values)
    if not found:
        return None
    return (1,) if table.name == "key_secret" else tuple(found[0])


def write(db: Asks, table: Table, batch: Sequence[Row]) -> None:
    """Within a transaction."""
    columns = [name_of(table, column) for column in table.columns]
    cells = [f"%s::{type_of(table, column)}[]" for column in table.columns]
    values: list[list[object]] = [list(column) for column in zip(*batch, strict=True)]
    if table.name == "key_secret":
        values[0] = [True] * len(batch)
    columns_more, cells_more = "", ""
    if table.name == "runs":
        columns_more, cells_more = ", owner, expires_ms", ", NULL, 0"
    elif table.name == "spending":
        columns_more, cells_more = ", slot", ", 0"
    db.ask(
        f"INSERT INTO :schema.{table.name} ({', '.join(columns)}{columns_more}) OVERRIDING SYSTEM VALUE "
        f"SELECT c.*{cells_more} FROM unnest({', '.join(cells)}) c",
        values,
        size=2 * sum(len(cell) for row in batch for cell in row if isinstance(cell, bytes | str)),
    )


def says(db: Asks, name: str) -> str | None:
    found = db.ask("SELECT value FROM :schema.store WHERE key = %s", (name,))
    return str(found[0][0]) if found else None
