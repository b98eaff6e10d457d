"""`reenact skills` and `reenact skill NAME`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reenact.cli.main import main
from reenact.contracts.skill import SkillMetadata
from reenact.skills.registry import default_registry

MINE = """\
from reenact.skills.declare import skill

@skill("mine", version="{version}", tool_class="read", owner="me")
def mine(order_id: int, notes: list[str] = []) -> dict[str, int]:
    '''Looks an order up.'''
    return {{"order": order_id}}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "my_skills.py"
    path.write_text(MINE.format(version="1.0.0"), encoding="utf-8")
    return path


def test_all_skills_are_listed(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    code, out, _ = run(capsys, "skills", "--skills", str(mine))
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["SKILL", "CLASS", "DESCRIPTION"]
    listed = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert listed["mine@1.0.0"] == "read"
    assert listed["http_call@1.3.0"] == "read/write"
    assert listed["shell@1.0.0"] == "write"
    assert len(listed) == len(default_registry()) + 1


def test_the_list_is_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "skills", "--json")
    assert code == 0
    digests = {f"{item['skill_id']}@{item['version']}": item["digest"] for item in json.loads(out)}
    assert digests == default_registry().digests()


def test_one_skill_is_shown_with_all_that_it_declares(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    code, out, _ = run(capsys, "skill", "mine", "--skills", str(mine))
    assert code == 0
    assert out.startswith("mine@1.0.0  Looks an order up.\n")
    assert f"origin        {mine}" in out
    assert "order_id  integer\n" in out
    assert "notes     list of string  = []\n" in out


def test_the_highest_version_is_shown_unless_another_is_named(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path
) -> None:
    newer = tmp_path / "newer.py"
    newer.write_text(MINE.format(version="1.10.0"), encoding="utf-8")
    both = ["--skills", str(mine), "--skills", str(newer)]
    assert run(capsys, "skill", "mine", *both)[1].startswith("mine@1.10.0")
    assert "versions      1.0.0, 1.10.0" in run(capsys, "skill", "mine@1.0.0", *both)[1]


def test_the_json_of_a_skill_is_its_metadata_and_digest(capsys: pytest.CaptureFixture[str]) -> None:
    import msgspec

    document = json.loads(run(capsys, "skill", "llm_invoke", "--json")[1])
    skill = default_registry().highest("llm_invoke")
    assert msgspec.convert(document["metadata"], SkillMetadata) == skill.metadata
    assert document["digest"] == skill.digest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["skill", "http_cal"], "error: no skill http_cal; did you mean http_call? [ERR_SKILL_NOT_FOUND]\n"),
        (
            ["skill", "http_call@0.1.0"],
            "error: no skill http_call@0.1.0; registered versions of http_call: 1.2.0, 1.3.0 [ERR_SKILL_NOT_FOUND]\n",
        ),
        (["skills", "--skills", "no_such_module"], "error: no module no_such_module; "),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_digests_do_not_depend_on_the_process() -> None:
    """Sets and hashes are salted per process; nothing of that may reach a schema."""
    code = "from reenact.skills.registry import default_registry as d; print(sorted(d().digests().items()))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert outputs == {f"{sorted(default_registry().digests().items())}\n"}
