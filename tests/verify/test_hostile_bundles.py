"""Bundles made to hurt whoever checks them: nothing hangs, nothing outside is read, no output line is forged."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from tools.vectors.scenarios import three_steps
from tools.vectors.writer import bundle_files

from reenact.verify import human, verify_bundle, verify_lines
from reenact.verify.folder import Folder
from reenact.verify.lines import MAX_LINE_BYTES
from tests.verify.changing import remade, write_folder

FILES = bundle_files(three_steps())
PAYLOAD = next(name for name in FILES if name.startswith("payloads/"))
SECRET = b"a secret outside of the bundle"


def bundle(folder: Path, **changes: bytes) -> Path:
    return write_folder(folder / "bundle", {**FILES, **changes})


def codes(folder: Path) -> list[str]:
    return [finding.code for finding in verify_bundle(folder).findings]


@pytest.mark.parametrize("name", ["journal.jsonl", "manifest.json", "keys.json", "plan.json", "seal.json", PAYLOAD])
def test_a_link_in_the_place_of_a_file_is_not_followed(name: str, tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    outside = tmp_path / "outside"
    outside.write_bytes(FILES[name])  # the very bytes that would verify
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    assert "FILE_KIND" in codes(folder)
    assert verify_bundle(folder).exit_code == 1


def test_a_linked_payload_folder_is_not_entered(tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    (folder / "payloads").rename(tmp_path / "elsewhere")
    (folder / "payloads").symlink_to(tmp_path / "elsewhere")
    report = verify_bundle(folder)
    assert report.exit_code == 1
    assert report.counts.present == 0


@pytest.mark.parametrize("name", ["journal.jsonl", "manifest.json", "seal.json", PAYLOAD])
def test_a_pipe_that_nobody_writes_to_does_not_hang_the_verifier(name: str, tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "FILE_KIND" in codes(folder)


def test_sockets_folders_and_extra_files_are_told(tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    (folder / "empty").mkdir()
    (folder / "payloads" / "deeper").mkdir()
    (folder / "notes.txt").write_text("hello", encoding="utf-8")
    (folder / "payloads" / "not-a-commitment").write_text("hello", encoding="utf-8")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "s"))
    server.close()
    report = verify_bundle(folder)
    found = {finding.where.file: finding.code for finding in report.findings}
    assert found == {
        "empty": "FILE_KIND",
        "payloads/deeper": "FILE_KIND",
        "s": "FILE_KIND",
        "notes.txt": "FILE_EXTRA",
        "payloads/not-a-commitment": "FILE_EXTRA",
    }


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/hostname", "payloads/../../outside", "payloads/..", "journal.jsonl\n"]
)
def test_a_manifest_that_names_another_place_is_refused_before_anything_is_opened(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(SECRET)
    manifest = json.loads(FILES["manifest.json"])
    manifest["files"][name] = "0" * 64
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    folder = bundle(tmp_path, **{"manifest.json": data})
    report = verify_bundle(folder)
    assert report.exit_code == 1
    assert report.findings[0].code == "MANIFEST_MALFORMED"


def test_a_line_without_end_stops_the_reading_at_once(tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    with (folder / "journal.jsonl").open("wb") as journal:
        journal.truncate(1 << 40)  # a terabyte of zeros that takes no room on the disk
    report = verify_bundle(folder)
    assert report.exit_code == 1
    assert report.first_break is not None
    assert report.first_break.code == "LINE_TOO_LONG"
    assert any("reading stopped at line 1" in note for note in report.notes)


@pytest.mark.parametrize("name", ["manifest.json", "seal.json", "plan.json", "REPLAY.jsonl", PAYLOAD])
def test_a_file_of_a_terabyte_is_not_read(name: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, remade({**FILES, "REPLAY.jsonl": b""}))
    with (folder / name).open("wb") as file:
        file.truncate(1 << 40)
    assert "FILE_TOO_LARGE" in codes(folder)


def test_a_line_of_the_longest_allowed_length_is_read_and_one_byte_more_is_not() -> None:
    line = b'"' + b"x" * (MAX_LINE_BYTES - 3) + b'"\n'
    assert verify_lines([line], None).findings[0].code == "COMMIT_MISPLACED"
    assert verify_lines([b'"x' + line[1:]], None).findings[0].code == "LINE_TOO_LONG"


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_deep_nesting_is_a_finding_and_no_crash(opening: bytes, tmp_path: Path) -> None:
    for depth in (300, 100_000):
        deep = opening * depth
        assert verify_lines([deep + b"\n"], None).exit_code == 1
        folder = bundle(tmp_path / str(depth) / opening.hex(), **{"seal.json": deep + b"\n", "manifest.json": deep})
        assert verify_bundle(folder).exit_code == 1


def test_many_bad_lines_do_not_fill_the_memory_or_the_screen(tmp_path: Path) -> None:
    folder = bundle(tmp_path, **{"journal.jsonl": b"x\n" * 1_000_000})
    report = verify_bundle(folder)
    assert len(report.findings) == 100
    assert report.broken_in_total < 2_000
    assert report.counts.lines < 2_000


EVIL = [
    "\u001b[2J\u001b[1;1Hintegrity     holds",
    "a\nintegrity     holds",
    "a\r\nintegrity     holds",
    "\u202eslodah\u202c",
    "\u0085\u2028\u2029\u000b\u000cx",
    "\u009b31m",
    "x" * 10_000,
]


@pytest.mark.parametrize("evil", EVIL)
def test_no_text_of_the_evidence_can_forge_a_line_or_move_the_cursor(evil: str, tmp_path: Path) -> None:
    from reenact.values.canonical import canonicalize

    line = canonicalize({"kind": evil, "run": {evil: evil}}) + b"\n"
    head = FILES["journal.jsonl"].split(b"\n")[0] + b"\n"
    run = json.loads(FILES["journal.jsonl"].split(b"\n")[1])
    run["run"]["mode"] = evil
    run["run"][evil] = 1
    for second in (line, canonicalize(run) + b"\n"):
        folder = write_folder(tmp_path / str(len(second)), remade({**FILES, "journal.jsonl": head + second}))
        report = verify_bundle(folder)
        printed = human(report)
        assert report.exit_code == 1
        assert all(text.isprintable() for text in printed)
        assert all(len(text) < 400 for text in printed)
        assert sum(text.startswith("integrity ") for text in printed) == 1
        assert printed[1].startswith("integrity     broken")


def test_a_hostile_file_name_cannot_forge_a_line(tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    (folder / "x\nintegrity     holds\x1b[0m").write_bytes(b"")
    (folder / os.fsdecode(b"bad\xff\xfename")).write_bytes(b"")
    report = verify_bundle(folder)
    assert [finding.code for finding in report.findings] == ["FILE_EXTRA", "FILE_EXTRA"]
    for text in human(report):
        assert text.isprintable()
    assert all((finding.where.file or "").isprintable() for finding in report.findings)


def test_the_folder_stays_the_one_that_was_opened(tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    opened = Folder.at(folder)
    try:
        folder.rename(tmp_path / "moved")
        write_folder(folder, {"journal.jsonl": SECRET})
        assert opened.read("journal.jsonl") == FILES["journal.jsonl"]
    finally:
        opened.close()


def test_nothing_is_written_into_the_bundle(tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    for path in (folder, folder / "payloads"):
        path.chmod(0o555)
    before = sorted(str(path) for path in folder.rglob("*"))
    assert verify_bundle(folder).exit_code == 0
    assert sorted(str(path) for path in folder.rglob("*")) == before
    for path in (folder, folder / "payloads"):
        path.chmod(0o755)
