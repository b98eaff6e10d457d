"""A note that a lease was broken, by somebody who has no key of the store: verify says so."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from reenact import Runtime, skill
from reenact.values.canonical import canonicalize
from tests.cli.harness import Command


@skill("look", version="1.0.0", tool_class="read")
def look(n: int) -> int:
    return n


def test_a_broken_lease_that_nobody_signed_is_found(tmp_path: Path) -> None:
    """The attacker blames a colleague for having taken a run over."""
    path = tmp_path / "store.db"
    runtime = Runtime(str(path), skills=[look])
    steps = [{"step_id": "s", "skill_id": "look", "parameters": {"n": 1}}]
    run_id = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps}).run_id
    runtime.close()
    record = canonicalize(
        {
            "schema": "reenact.lease_broken.v1", "expires_ms": 5, "owner": "host|1|2|3", "reason": "stuck",
            "run_id": run_id, "token": 1, "ts": "2026-01-01T00:00:00.000Z", "who": "kim",
        }
    )  # fmt: skip
    with closing(sqlite3.connect(path)) as db, db:
        store_id, kid = db.execute("SELECT store_id, kid FROM notes LIMIT 1").fetchone()
        row = ("reenact.lease_broken.v1", store_id, sha256(record).hexdigest(), kid, os.urandom(64), record)
        db.execute(
            "INSERT INTO notes (schema, store_id, digest, kid, signature, record) VALUES (?, ?, ?, ?, ?, ?)", row
        )
    done = Command(tmp_path)("verify", run_id, "--store", str(path))
    assert done.code == 1
    assert "NOTE_SIGNATURE: that a lease of run" in done.out
