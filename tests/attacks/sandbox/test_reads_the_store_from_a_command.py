"""A command reads or replaces the store that it is recorded in, or its keys, where they lie in the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.sandbox.probes import FOUND, UNCONFINED, run

HIDING = [name for name in FOUND if name != "landlock alone"]

LOOK = "ls -A keep/deep; cat keep/deep/runs.db keep/deep/runs.db.key; true"
REPLACE = {
    "writes into it": "echo x >> keep/deep/runs.db",
    "puts a log beside it": "echo x > keep/deep/runs.db-journal",
    "removes its key": "rm keep/deep/runs.db.key",
    "moves its folder": "mv keep/deep keep/other",
    "moves what leads to its folder": "mv keep other && mkdir -p keep/deep && echo x > keep/deep/runs.db",
    "removes everything": "rm -rf keep; test ! -e keep/deep",
}


def store_in(folder: Path) -> Path:
    (folder / "keep" / "deep").mkdir(parents=True)
    return folder / "keep" / "deep" / "runs.db"


def test_unconfined_it_reads_the_store(tmp_path: Path) -> None:
    outcome = run(UNCONFINED, tmp_path, ["sh", "-c", "head -c 15 keep/deep/runs.db"], store=store_in(tmp_path))
    assert outcome.output["stdout"] == "SQLite format 3", "the control must succeed"  # type: ignore[index]


@pytest.mark.parametrize("sandbox", HIDING)
def test_reads_the_store(sandbox: str, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, ["sh", "-c", LOOK], store=store_in(tmp_path))
    assert outcome.ok, outcome
    assert outcome.output["stdout"] == ""  # type: ignore[index]


@pytest.mark.parametrize("sandbox", HIDING)
@pytest.mark.parametrize("how", REPLACE)
def test_replaces_the_store(sandbox: str, tmp_path: Path, how: str) -> None:
    store = store_in(tmp_path)
    outcome = run(sandbox, tmp_path, ["sh", "-c", REPLACE[how]], store=store)
    assert outcome.ok, outcome
    assert outcome.output["exit_code"] != 0  # type: ignore[index]
    assert store.read_bytes().startswith(b"SQLite format 3")
    assert store.with_name("runs.db.key").exists()
    assert not store.with_name("runs.db-journal").exists()


@pytest.mark.parametrize("sandbox", HIDING)
def test_the_rest_of_the_workspace_can_be_used(sandbox: str, tmp_path: Path) -> None:
    command = "mkdir -p keep/mine && echo x > keep/mine/file && mv keep/mine new && cat new/file && chmod 700 new/file"
    outcome = run(sandbox, tmp_path, ["sh", "-c", command], store=store_in(tmp_path))
    assert outcome.output["stdout"] == "x\n", outcome  # type: ignore[index]


@pytest.mark.parametrize("sandbox", HIDING)
def test_reads_the_store_where_a_folder_around_it_is_readable(sandbox: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "home" / "notes").write_text("mine", encoding="utf-8")
    home = str(tmp_path / "home")
    command = ["sh", "-c", f"cat {home}/notes {home}/data/*"]
    outcome = run(sandbox, tmp_path / "work", command, readable=(home,), store=tmp_path / "home" / "data" / "runs.db")
    assert outcome.output["stdout"] == "mine"  # type: ignore[index]


@pytest.mark.parametrize("sandbox", FOUND)
def test_a_store_in_the_workspace_itself_is_refused(sandbox: str, tmp_path: Path) -> None:
    """Names that the store may make there at any time cannot be taken from a command that makes files there."""
    outcome = run(sandbox, tmp_path, ["true"], store=tmp_path / "runs.db")
    assert outcome.code == "ERR_PERMISSION_DENIED"
    assert outcome.message.startswith(f"a command in {tmp_path} would come to ")


@pytest.mark.skipif("landlock alone" not in FOUND, reason="this system has no Landlock 6")
def test_what_cannot_be_hidden_is_refused(tmp_path: Path) -> None:
    outcome = run("landlock alone", tmp_path, ["true"], store=store_in(tmp_path))
    assert outcome.code == "ERR_SKILL_DISABLED"
