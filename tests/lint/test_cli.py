"""The command: its exit codes, its formats, its words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reenact.cli.main import main

SAMPLES = Path(__file__).parent / "samples"


def lint(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["lint", *(str(argument) for argument in arguments)])
    code = stopped.value.code
    return code if isinstance(code, int) else 0


def test_clean_code_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(SAMPLES / "good") == 0
    assert capsys.readouterr().err == ""


def test_findings_are_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    file = SAMPLES / "bad" / "branch_if.py"
    assert lint(file) == 1
    out = capsys.readouterr().out
    assert f"{file.as_posix()}:5:8: RN101 branches on latency_ms: Network/system dependent" in out
    assert out.endswith("3 errors in 1 file\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--select", "RN9", "x.py"], ["--explain", "RN999"], ["--format", "xml", "x"]]
)
def test_a_wrong_call_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(*arguments) == 2
    assert capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_exit_code_3_and_the_rest_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(tmp_path / "missing.py", SAMPLES / "bad" / "branch_if.py") == 3
    captured = capsys.readouterr()
    assert "RN101" in captured.out
    assert re.fullmatch(
        r"error: '.*missing\.py' cannot be read: No such file or directory \[IO_ERROR\]\n", captured.err
    )


def test_a_report_that_cannot_be_written_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(SAMPLES / "good" / "telemetry.py", "--output", tmp_path) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_json_and_its_long_form_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    file = SAMPLES / "bad" / "walrus.py"
    assert lint(file, "--json") == 1
    short = capsys.readouterr().out
    assert lint(file, "--format", "json") == 1
    assert capsys.readouterr().out == short
    assert {one["rule"] for one in json.loads(short)["findings"]} == {"RN101", "RN102"}


def test_a_report_goes_to_a_file_and_its_summary_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "lint.sarif"
    assert lint(SAMPLES / "bad" / "walrus.py", "--format", "sarif", "--output", target) == 1
    assert capsys.readouterr().out == "3 errors in 1 file\n"
    assert json.loads(target.read_text(encoding="utf-8"))["version"] == "2.1.0"


def test_what_fails_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    warnings = SAMPLES / "bad" / "environment.py"
    notes = SAMPLES / "good" / "logging_branch_is_a_note.py"
    assert lint(warnings, "--fail-on", "error") == 0
    assert lint(warnings) == 1
    assert lint(notes) == 0
    assert lint(notes, "--fail-on", "note") == 1
    assert lint(warnings, "--ignore", "RN209") == 0
    assert lint(warnings, "--select", "RN1,RN203") == 0
    assert lint(SAMPLES, "--exclude", "bad") == 0
    assert capsys.readouterr().err == ""


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("--rules") == 0
    assert len(capsys.readouterr().out.splitlines()) == 21
    assert lint("--explain", "RN206") == 0
    explained = capsys.readouterr().out
    assert explained.startswith("### RN206 set-order\n")
    assert "sorted(set(hosts))" in explained


def test_the_pre_commit_hook_calls_the_command(root: Path) -> None:
    hooks = (root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"- id: reenact-lint\n(?:  .*\n)*", hooks)
    assert entry is not None
    assert "  entry: reenact lint\n" in entry[0]
    assert "  types: [python]\n" in entry[0]
