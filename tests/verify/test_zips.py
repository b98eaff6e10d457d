"""A bundle as somebody zipped it: read where it lies, and refused in one line where it is a trap or was damaged."""

from __future__ import annotations

import stat
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from reenact.errors import UnusableZip
from reenact.record.bundle import load_bundle
from reenact.verify import verify_bundle
from reenact.verify.files import zipped as zip_reader
from tests.cli.harness import Command
from tests.conftest import ROOT

BUNDLES = ROOT / "test_vectors" / "bundles"
LITTER = ("__MACOSX/evidence/._journal.jsonl", ".DS_Store", "Thumbs.db")


def zipped(path: Path, name: str = "three_steps_packed", *, top: str = "", method: int = ZIP_DEFLATED) -> Path:
    with ZipFile(path, "w", method) as made:
        for file in sorted((BUNDLES / name).rglob("*")):
            made.write(file, f"{top}{file.relative_to(BUNDLES / name)}")
    return path


def added(path: Path, name: str | ZipInfo, data: bytes = b"x") -> Path:
    with ZipFile(path, "a") as made:
        made.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED])
@pytest.mark.parametrize("top", ["", "evidence/"])
@pytest.mark.parametrize("name", ["three_steps", "three_steps_packed", "session"])
def test_a_zip_says_what_its_folder_says(tmp_path: Path, name: str, top: str, method: int) -> None:
    path = zipped(tmp_path / "b.zip", name, top=top, method=method)
    assert verify_bundle(path) == verify_bundle(BUNDLES / name)
    assert load_bundle(path).steps.keys() == load_bundle(BUNDLES / name).steps.keys()


@pytest.mark.parametrize("top", ["", "evidence/"])
def test_what_file_managers_leave_in_a_zip_is_not_part_of_the_evidence(tmp_path: Path, top: str) -> None:
    path = zipped(tmp_path / "b.zip", top=top)
    for name in LITTER:
        added(path, name if name.startswith("__") else top + name)
    report = verify_bundle(path)
    assert report.exit_code == 0
    assert [note for note in report.notes if note.startswith("not part of the evidence: ")]


def test_what_lies_beside_the_folder_of_the_bundle_is_told(tmp_path: Path) -> None:
    report = verify_bundle(added(zipped(tmp_path / "b.zip", top="evidence/"), "README.txt"))
    assert (report.exit_code, report.notes) == (0, ("not part of the evidence: README.txt",))


def test_a_file_in_the_bundle_that_nobody_names_is_found_in_a_zip_too(tmp_path: Path) -> None:
    path = added(zipped(tmp_path / "b.zip"), "more.txt")
    assert [finding.code for finding in verify_bundle(path).findings] == ["FILE_EXTRA"]
    told = Command(tmp_path)("verify", str(path))
    assert told.code == 1
    assert "not part of the evidence" in told.out
    assert "contradicts itself" not in told.out


def linked() -> ZipInfo:
    entry = ZipInfo("seal2.json")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return entry


def patched(path: Path, find: bytes, put: Callable[[bytes], bytes]) -> None:
    """Change every record of a zip that begins with `find`."""
    data = path.read_bytes()
    parts = data.split(find)
    path.write_bytes(parts[0] + b"".join(find + put(part) for part in parts[1:]))


def encrypted(path: Path) -> None:
    patched(path, b"PK\x01\x02", lambda part: part[:4] + bytes([part[4] | 1]) + part[5:])


def by_another_method(path: Path) -> None:
    patched(path, b"PK\x01\x02", lambda part: part[:6] + struct.pack("<H", 93) + part[8:])


def overlapping(path: Path) -> None:
    patched(path, b"PK\x01\x02", lambda part: part[:38] + bytes(4) + part[42:])


def lying(path: Path) -> None:
    patched(path, b"PK\x01\x02", lambda part: part[:20] + struct.pack("<I", 1 << 31) + part[24:])


def renamed_inside(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"journal.jsonl", b"journal.jsonk", 1))


def bomb(path: Path) -> None:
    with ZipFile(path, "a", ZIP_DEFLATED, compresslevel=1) as made, made.open("REPLAY.jsonl", "w") as file:
        for _ in range(40):
            file.write(bytes(1 << 20))


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"journal.jsonl") + 600] ^= 1
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def cut_in_front(path: Path) -> None:
    path.write_bytes(path.read_bytes()[10:])


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a name that climbs": (lambda path: added(path, "../outside"), "leads elsewhere"),
    "a name that climbs later": (lambda path: added(path, "payloads/../../outside"), "leads elsewhere"),
    "an absolute name": (lambda path: added(path, "/etc/passwd"), "leads elsewhere"),
    "a drive": (lambda path: added(path, "C:outside"), "leads elsewhere"),
    "a backslash": (lambda path: added(path, "..\\outside"), "leads elsewhere"),
    "a link": (lambda path: added(path, linked(), b"/etc/passwd"), "is a link"),
    "a name by case": (lambda path: added(path, "Journal.jsonl"), "many systems take for one"),
    "a name by composition": (lambda path: added(added(path, "\u00e4"), "a\u0308"), "many systems take for one"),
    "encrypted": (encrypted, "is encrypted; ask for a zip without a password"),
    "another method": (by_another_method, "packed by method 93"),
    "overlapping": (overlapping, "overlaps another"),
    "sizes that lie": (lying, "cannot be true"),
    "two names for one entry": (renamed_inside, "another file than the zip's directory says"),
    "a bomb": (bomb, "zip bomb"),
    "a flipped byte": (flipped, "is damaged"),
    "cut": (cut, "was cut"),
    "cut in front": (cut_in_front, "not where its end says"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", [*HOSTILE, "a name twice", "no zip", "empty", "no bundle", "several"])
def test_a_zip_that_is_a_trap_or_damaged_is_refused_in_one_line(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_reader, "BOMB_BYTES", 1 << 25)
    path = zipped(tmp_path / "b.zip", method=ZIP_DEFLATED)
    says = "twice"
    if kind in HOSTILE:
        change, says = HOSTILE[kind]
        change(path)
    elif kind == "a name twice":
        added(path, "journal.jsonl")
    elif kind in ("no zip", "empty"):
        path.write_bytes(b"hello" if kind == "no zip" else b"")
        says = "neither a folder nor a zip"
    else:
        path.unlink()
        added(added(path, "a/manifest.json"), "b/manifest.json") if kind != "no bundle" else added(path, "a/b")
        says = "holds no bundle" if kind == "no bundle" else "holds 2 bundles (a, b)"
    with pytest.raises(UnusableZip) as refused:
        verify_bundle(path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert {each.name for each in tmp_path.iterdir()} == {"b.zip"}


def test_the_command_says_so_with_its_code(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip")
    cut(path)
    for command in ("verify", "replay", "show"):
        told = Command(tmp_path)(command, str(path))
        assert (told.code, told.out) == (3, "")
        assert told.err == f"error: {path}: the zip was cut: its end is missing; ask for it again [ZIP_UNUSABLE]\n"


def test_a_missing_zip_or_folder_is_named_as_missing(tmp_path: Path) -> None:
    for name in ("gone.zip", "gone/", "gone"):
        told = Command(tmp_path)("verify", name, "--store", str(tmp_path / "none.db"))
        assert told.code == 3
        assert "gone" in told.err
        assert "o such f" in told.err  # no such folder, No such file


def test_a_large_file_in_a_zip_is_read_in_little_memory(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip")
    with ZipFile(path, "a", ZIP_DEFLATED) as made, made.open("RECEIPT.json", "w") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    assert verify_bundle(path).exit_code == 1  # nobody named it
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_the_log_in_a_zip_is_played(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip", top="evidence/")
    assert "holds no REPLAY.jsonl" in Command(tmp_path)("play", str(path), "--no-tty").err
    header = '{"created_at":"2026-01-01T00:00:00Z","event":"ReplayHeader","producer":"x","replay_version":1}\n'
    added(path, "evidence/REPLAY.jsonl", header.encode())
    played = Command(tmp_path)("play", str(path), "--no-tty")
    assert (played.code, played.err) == (0, "")
