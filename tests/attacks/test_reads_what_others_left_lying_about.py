"""Another user of the same machine: nothing that reenact makes can be read by him, or written through his links."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.record.export import export_run
from tests.store.checks.store_file import run_plan

PLAN = {
    "plan_id": "p", "agent_id": "a", "goal": "g",
    "steps": [
        {"step_id": "s", "skill_id": "json_transform", "parameters": {"operation": "extract", "data": {}, "path": ""}}
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def careless_umask() -> object:
    before = os.umask(0)
    yield None
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = [folder, *folder.rglob("*")]
    return [path.name for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_bundle_is_its_owners(tmp_path: Path) -> None:
    run_plan(tmp_path / "store.db")
    export_run(str(tmp_path / "store.db"), "last", tmp_path / "bundle")
    assert open_to_others(tmp_path / "bundle") == []


def test_the_data_directory_its_store_keys_and_log_are_their_owners(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(PLAN))
    log = tmp_path / "log.jsonl"
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "REENACT_LOG": str(log)}
    environment.pop("REENACT_STORE", None)
    words = [sys.executable, "-m", "reenact", "run", str(plan)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (tmp_path / "data" / "reenact" / "reenact.db").exists(), done.stderr
    assert open_to_others(tmp_path / "data" / "reenact") == []
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_lock_file_does_not_follow_his_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "store.db-turn").symlink_to(victim)
    run_plan(tmp_path / "store.db")
    assert not victim.exists()


def test_nor_does_a_replay_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is locked while it is written, and its name may be known before it is there."""
    victim = tmp_path / "victim"
    (tmp_path / "run.jsonl").symlink_to(victim)
    runtime = Runtime(str(tmp_path / "store.db"), replay_log=tmp_path / "run.jsonl")
    assert runtime.run(PLAN).status == "completed"
    runtime.close()
    assert not victim.exists()
    assert "symbolic links" in caplog.text
