"""A torn tail is told from damage, its bytes are kept, and the file is replaced whole or stays as it was."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from reenact.errors import StoreBusy, UsageError
from reenact.record.repair import lines as repairing
from reenact.record.repair.lines import examine, repair
from tests.cli.harness import Command
from tests.conftest import ROOT
from tests.record.repair.killing import killed

LINES = [b'{"event":"ReplayHeader","n":%d}\n' % n for n in range(40)]
TEXT = b"".join(LINES)


@pytest.mark.parametrize("cut", [1, 2, 5, 29])
def test_what_was_cut_is_taken_off_and_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(TEXT[:-cut])
    path.chmod(0o640)
    found = examine(path)
    assert (found.kind, found.line, path.read_bytes()) == ("torn", 40, TEXT[:-cut])
    repaired, kept = repair(path)
    if cut == 1:
        assert (kept, path.read_bytes()) == (None, TEXT), "only its newline was gone"
    else:
        assert kept is not None
        assert (path.read_bytes(), kept.read_bytes()) == (b"".join(LINES[:39]), LINES[39][:-cut])
        assert kept.name.startswith("REPLAY.jsonl.damaged-")
    assert repaired.lines == 40 - (cut > 1)
    assert path.stat().st_mode & 0o777 == 0o640
    assert examine(path).kind == "whole"
    assert repair(path)[1] is None


def test_zeros_at_the_end_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(TEXT + bytes(4096))
    repair(path)
    assert path.read_bytes() == TEXT


def test_what_a_link_leads_to_is_repaired_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    file, link = tmp_path / "logs" / "run.jsonl", tmp_path / "current.jsonl"
    file.write_bytes(TEXT[:-5])
    link.symlink_to(file)
    found, kept = repair(link)
    assert (found.kind, link.is_symlink(), file.read_bytes()) == ("torn", True, TEXT[: found.keep])
    assert kept is not None
    assert kept.parent == file.parent


@pytest.mark.parametrize(
    "damage", [b'{"a":\n', b"\xff\n", b"\0\0\n", b'{"a":1}{"b":2}\n', b"\n", b"[" * 5000 + b"]" * 5000 + b"\n"]
)
def test_damage_is_told_with_its_place_and_nothing_is_done(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(LINES[0] + damage + LINES[1])
    found, kept = repair(path)
    assert (found.kind, found.line, found.offset, kept) == ("damaged", 2, len(LINES[0]), None)
    assert path.read_bytes() == LINES[0] + damage + LINES[1]
    assert list(tmp_path.iterdir()) == [path]


def test_of_what_has_no_whole_line_nothing_can_be_kept(tmp_path: Path) -> None:
    """Taking the tail off would leave an empty file, which is damage itself."""
    for name, content in (("REPLAY.jsonl", LINES[0][:-4]), ("p.gz", gzip.compress(TEXT, mtime=0)[:30])):
        path = tmp_path / name
        path.write_bytes(content)
        found, kept = repair(path)
        assert (found.kind, found.lines, kept, path.read_bytes()) == ("damaged", 0, None, content)


def test_a_document_over_several_lines_is_no_file_of_lines_and_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{\n  "plan_id": "a",\n  "steps": []\n}\n')
    with pytest.raises(UsageError, match="one JSON document, and whole"):
        examine(path)
    path.write_text('{\n  "plan_id": "a",\n')
    assert examine(path).kind == "damaged"


def test_integers_of_other_producers_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(LINES[0] + b'{"event":"ToolCall","params":{"id":9223372036854775809}}\n')
    assert examine(path).kind == "whole"


def test_lines_that_an_editor_ended_otherwise_are_told(tmp_path: Path) -> None:
    """Nothing was cut; but `play` and `verify` refuse them."""
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(LINES[0] + LINES[1].replace(b"\n", b"\r\n"))
    found = examine(path)
    assert (found.kind, "and 1 end with CR LF" in found.says) == ("whole", True)


def test_packed_payloads_are_cut_to_their_last_whole_line(tmp_path: Path) -> None:
    original = (ROOT / "test_vectors" / "bundles" / "three_steps_packed" / "payloads.jsonl.gz").read_bytes()
    path = tmp_path / "payloads.jsonl.gz"
    assert [examine_bytes(path, data).kind for data in (original, original[:-300], original + b"x")] == [
        "whole", "torn", "damaged",
    ]  # fmt: skip
    path.write_bytes(original[:-300])
    _, kept = repair(path)
    assert kept is not None
    assert kept.read_bytes() == original[:-300]
    left = gzip.decompress(path.read_bytes())
    assert left.endswith(b"}\n")
    assert gzip.decompress(original).startswith(left)


def examine_bytes(path: Path, data: bytes) -> repairing.Examined:
    path.write_bytes(data)
    return examine(path)


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "REPLAY.jsonl"
    path.write_bytes(TEXT[:-5])
    look = repairing._look

    def meanwhile(*args: object) -> repairing.Examined:
        found = look(*args)  # type: ignore[arg-type]
        with path.open("ab") as file:
            file.write(LINES[39][-5:])
        return found

    monkeypatch.setattr(repairing, "_look", meanwhile)
    for act in (examine, repair):
        path.write_bytes(TEXT[:-5])
        with pytest.raises(StoreBusy, match="is being written"):
            act(path)
        assert path.read_bytes() == TEXT


def test_killed_anywhere_the_file_is_as_it_was_or_repaired(tmp_path: Path) -> None:
    torn, kills, number = TEXT[:-5], 0, 1
    while True:
        path = tmp_path / str(number) / "REPLAY.jsonl"
        path.parent.mkdir()
        path.write_bytes(torn)
        was_killed = killed(path, number)
        now = path.read_bytes()
        kept = list(path.parent.glob("*.damaged-*"))
        assert now in (torn, b"".join(LINES[:39]))
        assert now == torn or [each.read_bytes() for each in kept] == [LINES[39][:-5]]
        repair(path)
        assert path.read_bytes() == b"".join(LINES[:39])
        if not was_killed:
            break
        kills, number = kills + 1, number * 2 + 3
    assert kills >= 5


def test_the_command_says_first_and_does_with_yes(reenact: Command) -> None:
    path = reenact.folder / "REPLAY.jsonl"
    path.write_bytes(TEXT[:-5])
    said = reenact("repair", "REPLAY.jsonl")
    assert (said.code, "39 lines would be kept" in said.out, path.read_bytes()) == (4, True, TEXT[:-5])
    done = reenact("repair", "REPLAY.jsonl", "--yes", "--json")
    assert (done.code, done.json["repaired"], done.json["lines"]) == (0, True, 39)
    assert reenact("repair", "REPLAY.jsonl").code == 0
    path.write_bytes(LINES[0] + b"x\n")
    assert reenact("repair", "REPLAY.jsonl", "--yes").code == 1
    (reenact.folder / "store.db").write_bytes(b"SQLite format 3\0")
    for name, code in (("store.db", 2), (".", 2), ("nowhere.jsonl", 3)):
        failed = reenact("repair", name)
        assert (failed.code, failed.err.count("\n")) == (code, 1)


def test_a_line_longer_than_any_of_ours_is_damage_and_no_torn_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands behind it is not taken off with it."""
    monkeypatch.setattr(repairing, "LONGEST_LINE", 1 << 20)
    path, content = tmp_path / "x.jsonl", b"{}\n[" + b"1," * (2 << 20) + b"1]\n{}\n"
    path.write_bytes(content)
    found, kept = repair(path)
    assert (found.kind, found.line, found.offset, kept) == ("damaged", 2, 3, None)
    assert found.says == "a line of more than 1048576 bytes"
    assert path.read_bytes() == content
