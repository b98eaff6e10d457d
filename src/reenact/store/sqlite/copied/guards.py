"""Triggers that refuse every write to a store that is copied elsewhere: also by processes that have it open already."""

from __future__ import annotations

from typing import Final

from reenact.store.copying.tables import TABLES

EVENTS: Final = ("INSERT", "UPDATE", "DELETE")


def moved_guards(says: str) -> dict[str, str]:
    """name → SQL"""
    text = says.replace("'", "''")
    return {
        name: f"CREATE TRIGGER {name} BEFORE {event} ON {table.name} BEGIN SELECT RAISE(ABORT, '{text}'); END"
        for table in TABLES
        for event in EVENTS
        if (name := f"moved_{table.name}_{event.lower()}")
    }
