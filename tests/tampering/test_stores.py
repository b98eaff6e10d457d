"""Every kind of tampering with a store's file is found as it must be; what only a kept head shows, by that alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tampering.stores import ONLY_OUTSIDE, StoreFile, expected, is_found, judged, kinds, told


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> StoreFile:
    return StoreFile(tmp_path_factory.mktemp("store"))


def test_the_store_that_the_kinds_begin_from_is_whole(file: StoreFile) -> None:
    for run in range(len(file.runs)):
        assert judged(file, file.path, run, "alone")["verdicts"] == "holds holds holds absent"
        assert judged(file, file.path, run, "checkpoint")["verdicts"] == "holds holds holds holds"


def test_each_kind_is_found_as_it_must_be(file: StoreFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {kind.name: told(file, kind, tmp_path / "copy.db") for kind in kinds()}
    with capsys.disabled():
        print(f"\n{len(said)} kinds of tampering with a store")
    assert said == expected()
    assert [kind.name for kind in kinds() if not is_found(file, kind, said[kind.name])] == []


def test_what_only_a_kept_head_shows_is_not_found_without_it(file: StoreFile, tmp_path: Path) -> None:
    outside = [kind for kind in kinds() if kind.name.startswith(ONLY_OUTSIDE)]
    assert len(outside) == len(ONLY_OUTSIDE)
    for kind in outside:
        said = told(file, kind, tmp_path / "copy.db", reader="alone")
        assert (said["exit_code"], said["verdicts"]) == (0, "holds holds holds absent"), kind.name
