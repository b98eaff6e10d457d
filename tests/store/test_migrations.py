"""A schema is brought up to date after a backup; one from the future is refused and left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import StoreVersionError
from reenact.store import migrations
from reenact.store.sqlite import SqliteStore


@skill("look", version="1.0.0", tool_class="read")
async def look(q: str) -> str:
    return q


PLAN = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "s", "skill_id": "look", "parameters": {"q": "x"}}]}


def test_an_upgrade_keeps_a_backup_that_still_opens_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=Registry([look]))
    run_id = runtime.run(PLAN).run_id
    runtime.close()
    known = migrations.migrations()
    newer = [*known, (known[-1][0] + 1, "CREATE TABLE later (x TEXT);\n")]
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "migrations", lambda: newer)
        upgraded = SqliteStore(str(path))
        assert upgraded.find_run(run_id).status == "completed"
        upgraded.close()
    backup = tmp_path / f"store.db.schema-{known[-1][0]}.backup"
    assert SqliteStore(str(backup)).find_run(run_id).status == "completed"
    with pytest.raises(StoreVersionError, match="upgrade reenact"):
        SqliteStore(str(path))
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM later").fetchone() == (0,)


def test_the_schema_is_the_sum_of_its_numbered_migrations() -> None:
    numbers = [number for number, _ in migrations.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert migrations.latest() == numbers[-1]
