"""`--compat` says what the original says. The cases are observations of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from reenact.provenance.hashing import hash_structured
from reenact.provenance.verify.compat import Answer, verify_compatibly
from tests.provenance.verify.repository import TOKEN, VECTORS, Repository, raw

CASES: list[dict[str, Any]] = json.loads((VECTORS / "cli_cases.json").read_text(encoding="utf-8"))
# In these the original prints its parser's own words, and with them what the file says.
PARSER_WORDS = {"bom-sidecar", "token-dup-keys", "token-unresolved-tag-warn"}


def lay_out(case: dict[str, Any], folder: Path) -> Path:
    for name, file in case["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.get("dir"):
            path.mkdir()
        else:
            path.write_bytes(bytes.fromhex(file["hex"]) if "hex" in file else file["text"].encode())
    cwd = folder / case["cwd"]
    cwd.mkdir(parents=True, exist_ok=True)
    return cwd


def expected(case: dict[str, Any], root: str) -> Answer:
    return Answer(case["exit"], case["stdout"].replace("@ROOT@", root), case["stderr"].replace("@ROOT@", root))


def answer(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Answer, Answer]:
    root = os.path.realpath(tmp_path)
    monkeypatch.chdir(lay_out(case, Path(root)))
    return verify_compatibly([word.replace("@ROOT@", root) for word in case["args"][1:]]), expected(case, root)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["name"] not in PARSER_WORDS], ids=lambda case: case["name"]
)
def test_output_and_exit_code_are_the_originals(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = answer(case, tmp_path, monkeypatch)
    assert ours == theirs


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["name"] in PARSER_WORDS], ids=lambda case: case["name"]
)
def test_only_a_parsers_words_differ(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = answer(case, tmp_path, monkeypatch)
    assert ours.exit_code == theirs.exit_code
    assert without_parser_words(ours.stdout) == without_parser_words(theirs.stdout)


def without_parser_words(output: str) -> str:
    return re.sub(r"(failed to parse token at \S+: ).*?(?=\n        expected)", r"\1", output, flags=re.DOTALL)


def test_a_parsers_words_hold_nothing_of_the_file(repository: Repository) -> None:
    repository.write("tokens/t.yml", "secret-word: 1\nsecret-word: 2\n")
    repository.sidecar()
    done = repository.verify("--compat", "docs/r.md")
    assert done.returncode == 1
    assert "FAIL  token: failed to parse token at " in done.stdout
    assert "secret-word" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["clean", "help-flag", "help-flag-after", "extra-args-ignored", "dash-first-arg", "no-sidecar"]
)
@pytest.mark.parametrize("place", ["first", "last"])
def test_the_command_line_passes_arguments_on_as_they_stand(name: str, place: str, repository: Repository) -> None:
    case = next(case for case in CASES if case["name"] == name)
    for path in sorted(repository.root.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    lay_out(case, repository.root)
    words = ["--compat", *case["args"][1:]] if place == "first" else [*case["args"][1:], "--compat"]
    done = repository.verify(*words)
    assert Answer(done.returncode, done.stdout, done.stderr) == expected(case, str(repository.root))


def test_without_an_argument_it_is_a_usage_error(repository: Repository) -> None:
    done = repository.verify("--compat")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: ahd verify-replay <report.md | report.replay.json>\n"


def test_real_drift_has_the_originals_words(repository: Repository) -> None:
    repository.write("tokens/t.yml", "id: other\n")
    repository.write("briefs/b.yml", "title: other\n")
    repository.sidecar()
    lines = repository.verify("--compat", "docs/r.md").stdout.splitlines()
    assert "  FAIL  token: token contents have changed since the run; re-hash differs" in lines
    assert (
        "  FAIL  brief: brief contents have changed since the run (neither raw-bytes nor canonical-YAML hash matches)"
    ) in lines
    assert lines[-1] == "verdict: drift detected"


def test_a_hash_in_upper_case_is_drift_for_the_original(repository: Repository) -> None:
    sidecar = json.loads(repository.sidecar().read_text())
    sidecar["token"]["hash"] = "sha256:" + sidecar["token"]["hash"][7:].upper()
    repository.write("docs/r.replay.json", json.dumps(sidecar))
    assert repository.verify("--compat", "docs/r.md").returncode == 1
    assert repository.verify("docs/r.md").returncode == 0


@pytest.mark.parametrize("path", ["../secret.yml", "tokens/../../secret.yml", "@SECRET@"])
def test_what_lies_outside_the_root_is_not_opened_but_not_found(path: str, repository: Repository) -> None:
    secret = repository.root.parent / "secret.yml"
    os.mkfifo(secret)  # opening it for reading would block for ever
    repository.sidecar(token=raw(path.replace("@SECRET@", str(secret)), TOKEN))
    done = repository.verify("--compat", "docs/r.md")
    assert done.returncode == 1
    assert f"  FAIL  token: token file not found at {secret}" in done.stdout.splitlines()


def test_an_absolute_path_inside_the_root_is_read(repository: Repository) -> None:
    inside = str(repository.root / "tokens/t.yml")
    repository.sidecar(token={"path": inside, "hash": hash_structured(TOKEN)})
    assert repository.verify("--compat", "docs/r.md").returncode == 0


def test_our_own_kind_of_sidecar_is_refused_as_the_original_would(repository: Repository) -> None:
    repository.write("docs/r.replay.json", '{"schema": "reenact.replay.v1"}')
    done = repository.verify("--compat", "docs/r.md")
    assert done.returncode == 2
    assert done.stderr.startswith("Replay sidecar at docs/r.replay.json does not validate against ReplaySchema:\n[\n")
