"""file_read and file_write stay in the workspace."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from reenact.builtin import file_write as file_write_module
from reenact.builtin.file_read import file_read
from reenact.builtin.file_write import file_write
from tests.builtin.calling import Called, call


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    return folder


def read(workspace: Path, path: str, **more: Any) -> Called:
    return call(file_read, {"path": path, **more}, context={"workspace": str(workspace)})


def write(workspace: Path, path: str, content: str, **more: Any) -> Called:
    return call(file_write, {"path": path, "content": content, **more}, context={"workspace": str(workspace)})


def test_what_is_written_can_be_read(workspace: Path) -> None:
    written = write(workspace, "a/b/note.txt", "grüezi", make_folders=True)
    digest = hashlib.sha256("grüezi".encode()).hexdigest()
    assert written.output == {"path": "a/b/note.txt", "bytes": 7, "sha256": digest}
    assert written.report.side_effects == [("file_written", "a/b/note.txt")]
    found = read(workspace, "a/./b/note.txt")
    assert found.output == {
        "path": "a/b/note.txt", "encoding": "text", "content": "grüezi", "bytes": 7, "sha256": digest
    }  # fmt: skip
    assert found.report.side_effects == []


def test_bytes_travel_as_base64(workspace: Path) -> None:
    assert write(workspace, "raw", "AP8=", encoding="base64").code == "OK"
    assert (workspace / "raw").read_bytes() == b"\x00\xff"
    assert read(workspace, "raw", encoding="base64").output["content"] == "AP8="
    assert read(workspace, "raw").code == "ERR_DESERIALIZATION_FAILED"
    assert write(workspace, "raw", "no base64!", encoding="base64").code == "ERR_VALIDATION_FAILED"


@pytest.mark.parametrize("path", ["../outside.txt", "a/../../outside.txt", "/etc/passwd", "", ".", "a\0b", ".."])
def test_no_path_leads_outside(workspace: Path, path: str) -> None:
    assert read(workspace, path).code == "ERR_PERMISSION_DENIED"
    assert write(workspace, path, "x").code == "ERR_PERMISSION_DENIED"
    assert (workspace.parent / "outside.txt").read_text(encoding="utf-8") == "secret"


def test_no_link_leads_outside(workspace: Path) -> None:
    (workspace / "file_link").symlink_to(workspace.parent / "outside.txt")
    (workspace / "folder_link").symlink_to(workspace.parent)
    for path in ("file_link", "folder_link/outside.txt"):
        assert read(workspace, path).code == "ERR_PERMISSION_DENIED"
    assert write(workspace, "folder_link/outside.txt", "x").code == "ERR_PERMISSION_DENIED"
    assert write(workspace, "folder_link/new/x", "x", make_folders=True).code == "ERR_PERMISSION_DENIED"
    assert write(workspace, "file_link", "replaced the link itself").code == "OK"
    assert (workspace.parent / "outside.txt").read_text(encoding="utf-8") == "secret"


def test_only_regular_files_of_bounded_size_are_read(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "big").write_bytes(b"x" * 101)
    (workspace / "folder").mkdir()
    assert read(workspace, "pipe").code == "ERR_VALIDATION_FAILED"
    assert read(workspace, "folder").code == "ERR_VALIDATION_FAILED"
    assert read(workspace, "missing").code == "ERR_VALIDATION_FAILED"
    assert read(workspace, "big", max_bytes=100).code == "ERR_STORAGE_QUOTA_EXCEEDED"
    assert read(workspace, "big", max_bytes=101).code == "OK"


def test_a_missing_folder_is_not_made_unless_asked_for(workspace: Path) -> None:
    assert write(workspace, "a/b", "x").code == "ERR_VALIDATION_FAILED"
    assert not (workspace / "a").exists()
    assert write(workspace, "x" * 300, "x").code == "ERR_VALIDATION_FAILED"


def test_create_leaves_other_content_alone_and_takes_its_own_again(workspace: Path) -> None:
    assert write(workspace, "once", "first", mode="create").code == "OK"
    assert write(workspace, "once", "first", mode="create").code == "OK"
    assert write(workspace, "once", "second", mode="create").code == "ERR_VALIDATION_FAILED"
    assert (workspace / "once").read_text(encoding="utf-8") == "first"
    assert write(workspace, "once", "second").code == "OK"
    assert (workspace / "once").read_text(encoding="utf-8") == "second"


def test_a_write_that_fails_half_way_leaves_the_old_content_and_no_litter(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace, "note", "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_write_module.os, "fsync", full)
    called = write(workspace, "note", "new")
    assert called.code == "ERR_STORAGE_QUOTA_EXCEEDED"
    assert called.report.side_effects == []
    assert (workspace / "note").read_text(encoding="utf-8") == "old"
    assert [path.name for path in workspace.iterdir()] == ["note"]


@pytest.mark.parametrize("context", [{}, {"workspace": None}, {"workspace": ""}])
def test_without_a_workspace_the_skills_are_off(context: dict[str, Any]) -> None:
    assert call(file_read, {"path": "x"}, context=context).code == "ERR_SKILL_DISABLED"
    assert call(file_write, {"path": "x", "content": ""}, context=context).code == "ERR_SKILL_DISABLED"


def test_a_workspace_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    assert call(file_read, {"path": "x"}, context={"workspace": str(tmp_path / "none")}).code == "ERR_VALIDATION_FAILED"
