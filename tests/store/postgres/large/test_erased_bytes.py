"""Where the bytes of erased values still are, on the disk of a real server: what `erase` says, and nowhere else."""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Runtime, skill
from reenact.record.erase import erase
from reenact.store.open import open_store
from tests.postgres.server import Server

DATABASE = "erased"
OWN = (
    "SELECT p.body FROM reenact.payloads p WHERE p.run_no = 2 AND length(p.body) > 80 AND NOT EXISTS "
    "(SELECT 1 FROM reenact.payloads o WHERE o.run_no = 1 AND position(substr(p.body, 41, 40) IN o.body) > 0)"
)
"""Values of the second run that the first has nothing of."""


@skill("echo", version="1.0.0", tool_class="read")
def echo(text: str) -> str:
    return text[::-1]


def plan() -> dict[str, object]:
    """A value that lies in a row, and one that lies beside it."""
    steps = [
        {"step_id": f"step-{size}", "skill_id": "echo", "parameters": {"text": secrets.token_hex(size)}}
        for size in (40, 6000)
    ]
    return {"plan_id": "p", "agent_id": "a", "steps": steps}


def lying(server: Server, folder: Path, marks: list[bytes]) -> int:
    """How many of them some file below the folder still has."""
    server.execute("CHECKPOINT")
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return sum(any(mark in file for file in files) for mark in marks)


def test_erased_bytes_are_in_free_space_and_in_the_log_until_those_are_written_anew(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    postgres.add_database(DATABASE)
    url = postgres.url(database=DATABASE)
    try:
        with closing(Runtime(url, skills=[echo])) as runtime:
            runs = [runtime.run(plan()).run_id for _ in range(2)]
        ((oid,),) = postgres.execute("SELECT oid FROM pg_database WHERE datname = %s", DATABASE)
        tables, log = postgres.data / "base" / str(oid), postgres.data / "pg_wal"
        marks = [bytes(body[40:80]) for (body,) in postgres.execute(OWN, database=DATABASE)]
        assert lying(postgres, tables, marks) == lying(postgres, log, marks) == len(marks) > 2
        with closing(open_store(url)) as store:
            assert erase(store, runs[1], None, who="w", reason="r") > 3
            said = store.leftovers or ""
        assert lying(postgres, tables, marks) > 0, "the advice says more than is so"
        assert "free space of the table's pages" in said
        assert lying(postgres, log, marks) > 0
        assert "write-ahead log, its replicas and its backups" in said
        postgres.execute("VACUUM FULL reenact.payloads_0", database=DATABASE)
        assert lying(postgres, tables, marks) == 0
    finally:
        postgres.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
