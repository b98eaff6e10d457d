"""A partition whose runs were exported is detached, and attached again: other runs go on and verify meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from benchmarks.plans import SKILLS, plan

from reenact import Runtime
from reenact.store.checks.verification import verify_run
from reenact.store.postgres.opened.url import place_of
from tests.postgres.fixtures import Schemas

PARTITIONED = ("commits", "payloads", "traces", "contents", "shared_payloads", "run_checkpoints")
PART = 1 << 20


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    with new_schema() as url:
        yield url


def run_once(url: str) -> str:
    with closing(Runtime(url, skills=SKILLS)) as runtime:
        done = runtime.run(plan(2))
        assert done.status == "completed"
        return done.run_id


def notes_of(url: str, run_id: str) -> list[str]:
    done = verify_run(url, run_id)
    assert done.exit_code == 0
    return [note for note in done.report.notes if "partition" in note or "trigger" in note]


def each(db: psycopg.Connection[Any], statement: str) -> None:
    for table in PARTITIONED:
        db.execute(statement.format(table=table).encode())


def test_runs_of_a_detached_partition_are_missed_and_no_others(url: str) -> None:
    place = place_of(url)
    old = run_once(url)
    with psycopg.connect(place.conninfo, autocommit=True, options=f"-csearch_path={place.schema}") as db:
        db.execute("SELECT setval('run_numbers', %s)", (PART,))
        db.execute("SELECT add_partitions(%s)", (PART,))
        new = run_once(url)
        assert notes_of(url, old) == notes_of(url, new) == []
        each(db, "ALTER TABLE {table} DETACH PARTITION {table}_0")
        told = [f"the partition {table}_0 was detached: what it holds is not read here" for table in PARTITIONED]
        assert sorted(notes_of(url, new)) == sorted(told)
        found = verify_run(url, old)
        assert (found.exit_code, found.report.findings[0].code) == (1, "SEAL_MISSING")
        assert sorted(notes_of(url, run_once(url))) == sorted(told)
        each(db, f"ALTER TABLE {{table}} ATTACH PARTITION {{table}}_0 FOR VALUES FROM (0) TO ({PART})")
        assert notes_of(url, old) == notes_of(url, new) == []
        each(db, "DROP TABLE {table}_0")
        assert "the partition traces_0 is not there: what it held is not read here" in notes_of(url, new)
