"""The forms for programs and build services say the same as the text."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from reenact.provenance.hashing import canonical_text
from reenact.provenance.verify.model import Status
from tests.provenance.verify.repository import Repository, fields


@pytest.fixture
def mixed(repository: Repository) -> Repository:
    """One report that holds, one that drifted, one that cannot be checked."""
    repository.write("docs/holds.replay.json", json.dumps(fields(backfilled=True)))
    repository.write("tokens/other.yml", "id: other\n")
    token = {"path": "tokens/other.yml", "hash": fields()["token"]["hash"]}
    repository.write("docs/drifted.replay.json", json.dumps(fields(backfilled=True, token=token)))
    repository.write("docs/newer.replay.json", json.dumps(fields(schema_version=7)))
    return repository


def test_json_holds_every_report_and_the_exit_code(mixed: Repository) -> None:
    done = mixed.verify("--json", "docs")
    document = json.loads(done.stdout)
    assert document["summary"] == {"reports": 3, "hold": 1, "warned": 0, "drifted": 1, "not_checked": 1}
    assert {report["report"]: report["verdict"] for report in document["reports"]} == {
        "docs/drifted.md": "drifted",
        "docs/holds.md": "holds",
        "docs/newer.md": "not checked",
    }
    assert document["exit_code"] == done.returncode == 1


def test_a_newer_version_is_refused_by_name(mixed: Repository) -> None:
    done = mixed.verify("docs/newer.md")
    assert done.returncode == 2
    assert "FAIL  newer version: the sidecar has schema_version 7, and this version reads up to 1" in done.stdout


def test_an_unknown_field_is_ignored_with_a_warning_and_refused_when_compatible(mixed: Repository) -> None:
    mixed.write("docs/holds.replay.json", json.dumps(fields(backfilled=True, surplus=1)))
    done = mixed.verify("docs/holds.md")
    assert done.returncode == 0
    assert "  warn  sidecar: unknown field surplus is ignored" in done.stdout
    assert mixed.verify("--strict", "docs/holds.md").returncode == 1
    assert mixed.verify("--compat", "docs/holds.md").returncode == 2


def test_junit_has_a_suite_for_each_report_and_a_case_for_each_field(mixed: Repository, tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    assert mixed.verify("--junit", str(path), "docs").returncode == 1
    suites = ET.fromstring(path.read_text())
    assert [suites.get(name) for name in ("failures", "errors")] == ["1", "1"]
    by_name = {suite.get("name"): suite for suite in suites}
    assert set(by_name) == {"docs/holds.md", "docs/drifted.md", "docs/newer.md"}
    failure = by_name["docs/drifted.md"].find("testcase[@name='token']/failure")
    assert failure is not None
    assert failure.get("type") == "drifted"
    assert by_name["docs/newer.md"].find("testcase/error") is not None
    assert by_name["docs/holds.md"].find(".//failure") is None
    for suite in suites:
        assert len(suite) == int(suite.get("tests") or 0)


def test_sarif_places_a_result_at_each_sidecar_that_does_not_hold(mixed: Repository, tmp_path: Path) -> None:
    path = tmp_path / "out.sarif"
    mixed.verify("--sarif", str(path), "docs")
    run = json.loads(path.read_text())["runs"][0]
    found = [
        (result["ruleId"], result["level"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for result in run["results"]
    ]
    assert found == [
        ("drifted", "error", "docs/drifted.replay.json"),
        ("not-checked", "error", "docs/newer.replay.json"),
    ]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules


def test_the_summary_is_appended_as_a_table_of_what_does_not_hold(mixed: Repository, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    mixed.verify("--summary", str(path), "docs")
    text = path.read_text()
    assert text.startswith("before\n### Replay blocks\n\n3 reports: 1 hold, 1 drifted, 1 not checked\n")
    rows = re.findall(r"^\| (docs\S+) \| (\w+) \| \*\*([\w ]+)\*\*", text, re.MULTILINE)
    assert rows == [("docs/drifted.md", "token", "drifted"), ("docs/newer.md", "sidecar", "newer version")]


def test_a_file_that_cannot_be_written_is_one_line_and_exit_code_3(mixed: Repository) -> None:
    done = mixed.verify("--junit", "no/such/folder/x.xml", "docs")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def load(path: Path) -> Any:
    return json.loads(canonical_text(path.read_bytes())[0])


def verify_step(root: Path) -> tuple[str, dict[str, str]]:
    """The script of the action's second step, and its variables with the inputs' defaults."""
    action = load(root / "action.yml")
    step = action["runs"]["steps"][1]
    defaults = {f"${{{{ inputs.{name} }}}}": str(value["default"]) for name, value in action["inputs"].items()}
    return step["run"], {name: defaults[value] for name, value in step["env"].items()}


def run_action(root: Path, repository: Repository, **variables: str) -> subprocess.CompletedProcess[str]:
    script, defaults = verify_step(root)
    temporary = repository.root.parent / "runner"
    program = temporary / "reenact/bin/reenact"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m reenact "$@"\n')
    program.chmod(0o755)
    here = {"RUNNER_TEMP": str(temporary), "GITHUB_STEP_SUMMARY": str(temporary / "summary.md")}
    return subprocess.run(
        ["bash", "-c", script],
        cwd=repository.root,
        env=os.environ | defaults | here | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_actions_script_verifies_and_writes_every_file(root: Path, mixed: Repository) -> None:
    done = run_action(root, mixed, JUNIT="j.xml", SARIF="s.sarif", STRICT="true", AT_COMMIT="true", ROOT=".")
    assert done.returncode == 1, done.stderr
    assert "3 reports" in done.stdout
    assert all((mixed.root / name).exists() for name in ("j.xml", "s.sarif"))
    assert "### Replay blocks" in (mixed.root.parent / "runner/summary.md").read_text()


def test_the_actions_inputs_are_values_never_script(root: Path, mixed: Repository) -> None:
    done = run_action(root, mixed, PATHS="docs/holds.md\n\ndocs/holds.replay.json")
    assert done.returncode == 0, done.stderr
    hostile = run_action(root, mixed, PATHS='"; touch forged; $(touch forged)\n--json')
    assert hostile.returncode == 2
    assert not (mixed.root / "forged").exists()


def test_the_pre_commit_hook_runs_the_command_that_it_names(root: Path, mixed: Repository) -> None:
    hooks = load(root / ".pre-commit-hooks.yaml")
    hook = next(hook for hook in hooks if hook["id"] == "verify-replay")
    program, *words = [*shlex.split(hook["entry"]), *hook["args"]]
    assert (program, hook["pass_filenames"], hook["always_run"]) == ("reenact", False, True)
    assert mixed.reenact(*words).returncode == 1
    (mixed.root / "docs/drifted.replay.json").unlink()
    (mixed.root / "docs/newer.replay.json").unlink()
    assert mixed.reenact(*words).returncode == 0


def test_the_reference_names_every_option_and_every_status(root: Path, mixed: Repository) -> None:
    text = (root / "docs/reference/verify_replay.md").read_text()
    for command in ("verify-replay", "backfill", "rerun"):
        options = set(re.findall(r"--[a-z-]+", mixed.call(command, "--help").stdout)) - {"--help"}
        section = text[text.index(f"# `reenact {command}`") :]
        assert {option for option in options if option not in section} == set()
    of_inputs = set(Status) - {Status.NOT_CHECKED, Status.IGNORED, Status.ABSENT, Status.UNKNOWN_COMMIT}
    of_inputs -= {Status.DIFFERS, Status.INCONSISTENT}
    assert {status for status in of_inputs if f"\n| {status.value} |" not in text} == set()
