"""A bundle that was exported is on the disk; what killed exports left is swept, and what others are making is not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from reenact.record import export
from reenact.record.export import export_run
from reenact.store.private_file import draft_folder
from tests.crash.harness import in_child
from tests.engines.places import store_at
from tests.store.checks.store_file import StoreFile


def left_in(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.startswith(".")]


def test_every_file_and_folder_is_synced_before_the_bundle_has_its_name_and_then_the_name(
    original: StoreFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Path | str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    def replaced(self: Path, target: Path) -> Path:
        done.append("named")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    target = tmp_path / "bundle"
    export_run(store_at(original.path), original.first, target)
    named = done.index("named")
    synced_before = {Path(*file.parts[len(tmp_path.parts) + 1 :]) for file in done[:named] if isinstance(file, Path)}
    assert synced_before == {Path(), *(file.relative_to(target) for file in target.rglob("*"))}
    assert done[named + 1 :] == [tmp_path]


def test_what_a_killed_export_left_goes_with_the_next_one_into_that_folder(original: StoreFile, tmp_path: Path) -> None:
    def die_in_the_middle() -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(export, "sync_tree", lambda _: os.kill(os.getpid(), signal.SIGKILL))
            export_run(store_at(original.path), original.first, tmp_path / "bundle")

    (tmp_path / ".bundle.git").mkdir()
    assert in_child(die_in_the_middle) == signal.SIGKILL
    assert len(left_in(tmp_path)) == 2
    assert not (tmp_path / "bundle").exists()
    export_run(store_at(original.path), original.first, tmp_path / "another")
    assert left_in(tmp_path) == [tmp_path / ".bundle.git"]


def test_what_another_process_is_exporting_is_left_alone(original: StoreFile, tmp_path: Path) -> None:
    with draft_folder(tmp_path) as draft:
        export_run(store_at(original.path), original.first, tmp_path / "bundle")
        assert draft.is_dir()
    assert left_in(tmp_path) == [draft]
