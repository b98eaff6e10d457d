"""Triggers that refuse every write to a store that is copied elsewhere: also by processes that have it open already."""

from __future__ import annotations

from typing import Final

from reenact.store.copying.tables import TABLES, Table

FUNCTION: Final = "refuse_moved"
KIND: Final = 62
"""Of a trigger as the catalog has it: before INSERT, DELETE, UPDATE and TRUNCATE, for each statement."""


def guard_name(table: Table) -> str:
    return f"moved_{table.name}"


def moved_guards(says: str) -> str:
    """The statements that make them."""
    text = says.replace("'", "''")
    return "; ".join(
        f"CREATE TRIGGER {guard_name(table)} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON :schema.{table.name} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION :schema.{FUNCTION}('{text}')"
        for table in TABLES
    )


def as_catalogued(says: str) -> dict[str, str]:
    """name → what the catalog tells of it"""
    text = "".join(escaped(byte) for byte in says.encode())
    return {guard_name(table): f"{FUNCTION} {KIND} O {text}\\000" for table in TABLES}


def escaped(byte: int) -> str:
    """As `encode(…, 'escape')` writes it."""
    if byte == ord("\\"):
        return "\\\\"
    return chr(byte) if 0 < byte < 128 else f"\\{byte:03o}"
