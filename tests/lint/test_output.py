"""Text, JSON and SARIF say the same, in bytes that depend on nothing but the code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from reenact.lint.check import check
from reenact.lint.findings import RULES, Report, Severity, Unreadable
from reenact.lint.output import as_json, as_sarif, as_text

SAMPLES = Path(__file__).parent / "samples"

# What SARIF 2.1.0 demands of the parts that are written here.
_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "format": "uri-reference"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {
                        name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn", "endLine")
                    },
                },
            },
        },
        "message": _TEXT,
    },
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": _TEXT,
                                                "fullDescription": _TEXT,
                                                "defaultConfiguration": {
                                                    "properties": {
                                                        "level": {"enum": ["none", "note", "warning", "error"]}
                                                    }
                                                },
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {"type": "object", "required": ["executionSuccessful"]},
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": _TEXT,
                                "locations": {"type": "array", "items": _LOCATION},
                                "relatedLocations": {"type": "array", "uniqueItems": True, "items": _LOCATION},
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def report() -> Report:
    return check([str(SAMPLES)])


def test_json_has_every_finding_with_its_place_and_rule(report: Report) -> None:
    document = json.loads(as_json(report))
    assert document["exit_code"] == 1
    assert document["checked"] == list(report.checked)
    assert document["unreadable"] == []
    for written, finding in zip(document["findings"], report.findings, strict=True):
        assert written["file"] == finding.place.file
        assert (written["line"], written["column"]) == (finding.place.line, finding.place.column)
        assert written["end_line"] >= written["line"]
        assert (written["rule"], written["message"]) == (finding.rule, finding.message)
        assert Severity[written["severity"].upper()] is finding.severity
        assert len(written["related"]) == len(finding.related)


def test_sarif_keeps_to_the_format_and_refers_to_its_rules(report: Report) -> None:
    document = json.loads(as_sarif(report, "0.1.0"))
    jsonschema_rs.validator_for(SARIF).validate(document)
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(RULES)
    assert len(run["results"]) == len(report.findings)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert run["invocations"][0]["executionSuccessful"] is True


def test_sarif_says_what_could_not_be_read() -> None:
    document = json.loads(as_sarif(Report((), (), (Unreadable("a b/ü.py", "Permission denied"),)), "0.1.0"))
    jsonschema_rs.validator_for(SARIF).validate(document)
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"] == "cannot be read: Permission denied"
    assert note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/%C3%BC.py"


def test_text_has_one_line_for_each_finding_and_a_summary(report: Report) -> None:
    lines = as_text(report).splitlines()
    assert len(lines) == len(report.findings) + 1
    place = report.findings[0].place
    assert lines[0].startswith(f"{place.file}:{place.line}:{place.column}: RN")
    assert lines[-1].endswith(f" in {len(report.checked)} files")
    assert as_text(Report((), ("a.py",))) == "nothing found in 1 file\n"


def test_a_name_that_is_no_text_cannot_break_any_format(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff\nname\x1b[31m.py"))
    file.write_text("import time\nx = time.time()\n")
    report = check([str(file)])
    assert len(as_text(report).splitlines()) == 2
    assert "\x1b" not in as_text(report)
    as_text(report).encode()
    for document in (as_json(report), as_sarif(report, "0.1.0")):
        json.loads(document)
        document.encode()


def test_the_exit_code_follows_the_gravest_finding(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import os\nA = os.environ['A']\n")
    report = check([str(tmp_path)])
    assert [report.exit_code(level) for level in Severity] == [1, 1, 0]


def run(seed: str, form: str) -> bytes:
    code = "import sys; from reenact.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "lint", "--format", form, "tests/lint/samples"]
    root = SAMPLES.parents[2]
    env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"Etc/GMT+{seed}"}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, check=False, timeout=120).stdout


def test_the_output_does_not_depend_on_the_hash_seed() -> None:
    outputs: list[Any] = [run(seed, "json") for seed in ("1", "2", "3")]
    assert outputs[0]
    assert outputs[0] == outputs[1] == outputs[2]
