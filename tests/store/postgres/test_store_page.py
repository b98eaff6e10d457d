"""The page about the store names every table and every function, and the database refuses what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from reenact.store.base import Lease
from reenact.store.open import open_store
from reenact.store.postgres.evidence.guards import as_made
from reenact.store.postgres.opened.url import place_of
from reenact.store.postgres.writing.packing import Batch, Packing
from reenact.store.signing import key_in_memory
from tests.postgres.fixtures import Schemas
from tests.store.units import Run

ROWS = {
    "commits": "(1, 1, '', '', '')",
    "payloads": "(1, 1, 0, '', '')",
    "erasures": "(1, 1, '')",
    "late_effects": "(1, 2, 't', 'x')",
    "keys": "('k', 'p')",
    "notes": "(DEFAULT, 's', 'i', 'd', 'k', '', NULL)",
    "log_checkpoints": "(1, '', 'k', '')",
    "log_cosignatures": "(DEFAULT, 1, 'w', '')",
    "log_timestamps": "(DEFAULT, 1, 'p', '')",
    "log_contradictions": "(DEFAULT, 's', '')",
}

FUNCTIONS = ("append_1(p_units jsonb, b bytea[])", "write_1(p_units jsonb, b bytea[], p_no bigint[])")
ALWAYS = {"body", "client", "digest", "mac", "n", "run_id", "status", "token"}


def page(root: Path) -> str:
    return (root / "docs" / "spec" / "store_postgres.md").read_text(encoding="utf-8")


def table_of(root: Path) -> dict[str, str]:
    """Each table that the page names, and what it is said to be."""
    section = page(root).partition("## Tables")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.MULTILINE)
    return {name: what for names, what in rows for name in re.findall(r"`(\w+)`", names)}


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as found:
        open_store(found).close()
        yield found


def test_every_table_is_said_to_be_evidence_or_not(root: Path) -> None:
    tables = {name.removeprefix("table ") for name in as_made() if name.startswith("table ")}
    assert set(table_of(root)) == {name for name in tables if not name.rpartition("_")[2].isdigit()}


def test_evidence_cannot_be_changed_by_accident(root: Path, url: str) -> None:
    evidence = {name for name, what in table_of(root).items() if "**evidence**" in what}
    assert evidence == set(ROWS)
    place = place_of(url)
    with psycopg.connect(place.conninfo, autocommit=True) as db:
        for table in sorted(evidence):
            name = f"{place.schema}.{table}"
            db.execute(f"INSERT INTO {name} VALUES {ROWS[table]}")
            columns = [column.name for column in db.execute(f"SELECT * FROM {name} LIMIT 0").description or ()]
            statements = [f"UPDATE {name} SET {column} = {column}" for column in columns if column != "id"]
            statements += [f"TRUNCATE {name}", *([] if table == "payloads" else [f"DELETE FROM {name}"])]
            if table in ("commits", "payloads"):
                statements.append(f"TRUNCATE {name}_0")
            for statement in statements:
                with pytest.raises(psycopg.DatabaseError, match="append-only") as refused:
                    db.execute(statement)
                assert refused.value.sqlstate == "RN001"


def test_a_unit_is_what_the_page_shows(root: Path) -> None:
    unit, _ = Run("run-1").unit(n=2, new=False)
    batch = Batch()
    Packing("store").add(batch, unit, Lease("run-1", "a", 1, 0), key_in_memory(), unit.body, [])
    shown = re.search(r"^units +(.*)$", page(root), re.MULTILINE)
    assert shown is not None
    assert json.loads(shown[1]) == batch.units


def test_what_a_unit_may_say_is_what_the_function_reads(root: Path) -> None:
    section = page(root).partition("| key | value |")[2].partition("\n\n")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    made = as_made()
    source = "".join(made[f"function {name}"] for name in FUNCTIONS)
    assert told == set(re.findall(r"(?:u \?|u ->) '(\w+)'", source)) - ALWAYS


def test_a_head_that_is_signed_only_grows(url: str) -> None:
    place = place_of(url)
    with psycopg.connect(place.conninfo, autocommit=True) as db:
        db.execute(f"INSERT INTO {place.schema}.log_checkpoints VALUES (5, '', 'k', '')")
        for size in (4, 5):
            with pytest.raises(psycopg.DatabaseError):
                db.execute(f"INSERT INTO {place.schema}.log_checkpoints VALUES ({size}, '', 'k', '')")
