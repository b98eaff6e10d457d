"""Zips in the second verifier: it says of one what it says of the folder, and refuses what ours refuses."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from reenact.errors import UnusableZip
from reenact.verify import verify_bundle
from tests.second_verifier.both import SCRIPT, differences, first, node, second
from tests.verify.test_zips import BUNDLES, HOSTILE, LITTER, added, patched, zipped


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED])
@pytest.mark.parametrize("top", ["", "evidence/"])
def test_a_zip_says_what_its_folder_says(tmp_path: Path, top: str, method: int) -> None:
    names = [folder.name for folder in sorted(BUNDLES.iterdir()) if folder.is_dir()]
    paths = [zipped(tmp_path / f"{name}.zip", name, top=top, method=method) for name in names]
    assert second(paths) == second([BUNDLES / name for name in names])


def test_both_say_the_same_of_what_else_lies_in_a_zip(tmp_path: Path) -> None:
    made = {}
    for name in (
        *LITTER,
        "more.txt",
        "a/b",
        "payloads/x",
        "payloads/y/z",
        "parents/q",
        "parents/r/manifest.json",
        "b/",
    ):
        path = zipped(tmp_path / f"{len(made)}.zip", top="evidence/")
        made[added(path, f"evidence/{name}")] = name
    made[added(zipped(tmp_path / "beside.zip", top="evidence/"), "README.txt")] = "beside"
    many = zipped(tmp_path / "many.zip")
    for name in ("z.txt", "a.txt", "payloads.txt", "payloads/1", "m/1"):
        added(many, name)
    made[many] = "several, in no order"
    for path, theirs in zip(made, second(made), strict=True):
        ours = first(path)
        assert differences(ours, theirs) == {}, made[path]
        assert ours["notes"] == theirs["notes"]


def bomb(path: Path) -> None:
    """Two megabytes of which the directory says that they unpack to more than a gigabyte."""
    with ZipFile(path, "a", ZIP_DEFLATED) as made:
        made.writestr("REPLAY.jsonl", os.urandom(2 << 20))

    def says(part: bytes) -> bytes:
        return part[:20] + struct.pack("<I", 1100 << 20) + part[24:] if b"REPLAY.jsonl" in part[42:60] else part

    patched(path, b"PK\x01\x02", says)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_both_refuse_the_same_zips_in_the_same_words(tmp_path: Path) -> None:
    changes = {**{name: change for name, (change, _) in HOSTILE.items()}, "a bomb": bomb}
    tmp_path /= "a folder far down " * 9  # no message is cut for the length of a path
    tmp_path.mkdir()
    paths = []
    for number, change in enumerate(changes.values()):
        paths.append(zipped(tmp_path / f"{number}.zip"))
        change(paths[-1])
    for name, data in (("no zip", b"hello"), ("empty", b"")):
        paths.append(tmp_path / f"{name}.zip")
        paths[-1].write_bytes(data)
    paths.append(added(zipped(tmp_path / "twice.zip"), "journal.jsonl"))
    paths.append(added(tmp_path / "no bundle.zip", "a/b"))
    paths.append(added(added(tmp_path / "several.zip", "a/manifest.json"), "b/manifest.json"))
    for path, theirs in zip(paths, second(paths), strict=True):
        with pytest.raises(UnusableZip) as refused:
            verify_bundle(path)
        assert theirs["exit_code"] == 3
        ours = str(refused.value)
        if "is damaged" not in ours or "sizes" in ours:  # what is wrong with packed bytes each says in words of its own
            assert theirs["error"] == ours.replace("\\\\", "\\")
        assert "\n" not in theirs["error"]
    assert not list(tmp_path.glob("*[!p]")), "nothing is unpacked"


def test_an_entry_with_large_numbers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with ZipFile(path, "w") as made:
        for file in sorted((BUNDLES / "three_steps").rglob("*")):
            if file.is_file():
                with made.open(str(file.relative_to(BUNDLES / "three_steps")), "w", force_zip64=True) as entry:
                    entry.write(file.read_bytes())
    assert second([path]) == second([BUNDLES / "three_steps"])


def test_the_command_takes_a_zip(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip", top="evidence/")
    done = subprocess.run([node(), str(SCRIPT), str(path), "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, json.loads(done.stdout)["integrity"]) == (0, "", "holds")
    path.write_bytes(path.read_bytes()[:-100])
    done = subprocess.run([node(), str(SCRIPT), str(path)], capture_output=True, text=True, check=False)
    said = f"verify.mjs: {path}: the zip was cut: its end is missing; ask for it again\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


def test_paths_that_come_late_are_waited_for(tmp_path: Path) -> None:
    """A pipe that is set not to block says that there is nothing yet, and whoever asked would end."""
    theirs, ours = os.pipe()
    os.set_blocking(theirs, False)
    verifier = subprocess.Popen([node(), str(SCRIPT), "--batch"], stdin=theirs, stdout=subprocess.PIPE, text=True)
    os.close(theirs)
    time.sleep(0.5)
    os.write(ours, f"{zipped(tmp_path / 'b.zip')}\n".encode())
    os.close(ours)
    said, _ = verifier.communicate(timeout=60)
    assert json.loads(said)["exit_code"] == 0
