"""`reenact hash`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from reenact.cli.main import main
from reenact.provenance import hash_raw, hash_structured

TEXT = "b: 2\na: 1 # c\n"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["hash", *arguments])
    code = ended.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token.yml"
    path.write_text(TEXT)
    return path


def test_one_file_prints_its_structured_hash_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(file)) == 0
    assert capsys.readouterr().out == hash_structured(TEXT) + "\n"


def test_raw_prints_the_hash_of_the_bytes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--raw", str(file)) == 0
    assert capsys.readouterr().out == hash_raw(TEXT.encode()) + "\n"


def test_several_files_are_told_apart_by_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(file), str(file)) == 0
    line = f"{hash_structured(TEXT)}  {file}\n"
    assert capsys.readouterr().out == line * 2


def test_json_has_both_hashes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", str(file)) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["structured"] == hash_structured(TEXT)
    assert result["raw"] == hash_raw(TEXT.encode())
    assert result["problem"] is None


def test_a_file_without_a_value_ends_with_2_and_one_line_that_shows_nothing_of_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("secretword: [\n")
    assert run(str(file)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")
    assert "line 2" in captured.err
    assert "--raw" in captured.err
    assert "secretword" not in captured.err
    assert run("--json", str(file)) == 2


def test_a_file_that_is_not_there_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path / "none.yml")) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_what_the_hash_leaves_out_is_warned_about(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("__proto__: 1\n")
    assert run(str(file)) == 0
    captured = capsys.readouterr()
    assert captured.out == hash_structured("{}") + "\n"
    assert "__proto__" in captured.err


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert run("-") == 0
    assert capsys.readouterr().out == hash_structured(TEXT) + "\n"
