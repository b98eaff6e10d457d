"""An agent with a workspace wants the key that signs its record, the database, or others of its own in their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from reenact.builtin.file_read import file_read
from reenact.builtin.workspace import open_folder
from reenact.store.encryption import SUFFIX
from reenact.store.location import OwnFiles

OWN = ["store.db", "store.db-wal", "store.db-shm", "store.db-turn", "store.db.key", f"store.db{SUFFIX}"]
NOT_THERE_YET = [
    "store.db.archive",
    "store.db-journal",
    "store.db.key.0123456789abcdef",
    "store.db.mac-key",
    "store.db.schema-9.backup",
]


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    made = Runtime(tmp_path / "store.db", policy={"workspaces": ["/"]})  # the most that a host can give
    (tmp_path / f"store.db{SUFFIX}").write_text("x" * 44, encoding="utf-8")
    return made


def tried(runtime: Runtime, workspace: Path, skill: str, path: str, **more: Any) -> tuple[str, str]:
    """(status, code) of one call of a plan."""
    step = {"step_id": "s", "skill_id": skill, "parameters": {"path": path, **more}}
    plan = {"plan_id": "p", "agent_id": "a", "context": {"workspace": str(workspace)}, "steps": [step]}
    (outcome,) = runtime.run(plan).outcomes
    return outcome.status, outcome.code


@pytest.mark.parametrize("name", OWN)
def test_reads_them_where_they_lie(runtime: Runtime, tmp_path: Path, name: str) -> None:
    """The store lies in the workspace: each of its files is read by name, and written over."""
    before = (tmp_path / "store.db.key").read_bytes()
    assert tried(runtime, tmp_path, "file_read", name, encoding="base64") == ("failure", "ERR_PERMISSION_DENIED")
    assert tried(runtime, tmp_path, "file_read", f"./{name}")[1] == "ERR_PERMISSION_DENIED"
    assert tried(runtime, tmp_path, "file_write", name, content="mine")[1] == "ERR_PERMISSION_DENIED"
    assert (tmp_path / "store.db.key").read_bytes() == before


@pytest.mark.parametrize("name", [*NOT_THERE_YET, *(name.upper() for name in (*OWN, *NOT_THERE_YET))])
def test_puts_one_where_the_store_will_look(runtime: Runtime, tmp_path: Path, name: str) -> None:
    """A key, log or journal that is not there yet is written, in any spelling, as a file or as a folder on the way."""
    for mode in ("replace", "create"):
        code = tried(runtime, tmp_path, "file_write", name, content="mine", mode=mode)[1]
        assert code == "ERR_PERMISSION_DENIED"
    assert (
        tried(runtime, tmp_path, "file_write", f"{name}/x", content="", make_folders=True)[1] == "ERR_PERMISSION_DENIED"
    )
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", OWN)
def test_reads_them_over_a_link(runtime: Runtime, tmp_path: Path, name: str) -> None:
    """A hard link, a symbolic link or a linked folder in a workspace beside the store leads to its files."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    os.link(tmp_path / name, workspace / "hard")
    (workspace / "soft").symlink_to(tmp_path / name)
    (workspace / "folder").symlink_to(tmp_path)
    for path in ("hard", "soft", f"folder/{name}", f"../{name}", str(tmp_path / name)):
        assert tried(runtime, workspace, "file_read", path, encoding="base64")[1] == "ERR_PERMISSION_DENIED"
    assert tried(runtime, workspace, "file_write", "hard", content="", mode="create")[1] == "ERR_PERMISSION_DENIED"
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path)
    assert tried(runtime, linked, "file_read", name, encoding="base64")[1] == "ERR_PERMISSION_DENIED"
    through_proc = Path(f"/proc/self/root{tmp_path}")
    if through_proc.exists():
        assert tried(runtime, through_proc, "file_read", name, encoding="base64")[1] == "ERR_PERMISSION_DENIED"


def test_reads_them_through_an_open_descriptor(runtime: Runtime) -> None:
    """The process holds the database open: /proc/self/fd has it under a number."""
    fds = Path("/proc/self/fd")
    if not fds.exists():
        pytest.skip("there is no /proc here")
    for name in sorted(entry.name for entry in fds.iterdir()):
        status, _ = tried(runtime, fds, "file_read", name, encoding="base64")
        assert status == "failure"


def test_turns_a_name_to_the_key_after_the_look_at_it(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between check and open the agent's other hand puts a hard link to the key in the place of a harmless file."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "note").write_text("harmless", encoding="utf-8")

    def swapping(*arguments: Any, **more: Any) -> Any:
        (workspace / "note").unlink()
        os.link(tmp_path / "store.db.key", workspace / "note")
        return open_folder(*arguments, **more)

    monkeypatch.setitem(file_read.__wrapped__.__globals__, "open_folder", swapping)
    assert tried(runtime, workspace, "file_read", "note")[1] == "ERR_PERMISSION_DENIED"


def test_files_of_the_same_beginning_stay_usable(runtime: Runtime, tmp_path: Path) -> None:
    """What only looks like the store's is not."""
    for name in ("store.db.txt", "store.db-walrus", "store.dbx", "mystore.db", "sub/store.db"):
        assert tried(runtime, tmp_path, "file_write", name, content="x", make_folders=True) == ("success", "OK")
        assert tried(runtime, tmp_path, "file_read", name) == ("success", "OK")


def test_the_list_names_what_is_there_and_what_may_come(runtime: Runtime, tmp_path: Path) -> None:
    """Whoever confines a command keeps it from these: a draft of a key and a copy of a migration are among them."""
    for name in ("store.db.key.draft-1", "store.db.schema-9.backup"):
        (tmp_path / name).touch()
    named = {path.name for path in runtime.store.files.paths()}
    assert {*OWN, "store.db-journal", "store.db.mac-key", "store.db.key.draft-1", "store.db.schema-9.backup"} <= named
    assert {path.name for path in OwnFiles(None).paths()} == {"reenact.toml", "trusted_keys"}  # the host's own
    assert not OwnFiles(None).has(tmp_path / "store.db")
