"""Many reports in one call: what may be named, how they are counted, and that equal inputs are parsed once."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reenact.errors import UsageError
from reenact.provenance.verify.targets import expand
from reenact.provenance.verify.verify import Verifier, verify_reports
from tests.provenance.verify.repository import TOKEN, Repository, fields


@pytest.fixture
def many(repository: Repository) -> Repository:
    repository.sidecar()
    repository.write("docs/a/b/deep.replay.json", json.dumps(fields()))
    repository.write("docs/a/plain.md", "# no report\n")
    repository.write("docs/node_modules/x.replay.json", json.dumps(fields()))
    return repository


def reports(*arguments: str) -> list[str]:
    return [target.sidecar for target in expand(arguments)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["docs/r.md"], ["docs/r.replay.json"]),
        (["docs/r.replay.json"], ["docs/r.replay.json"]),
        (["docs/r"], ["docs/r.replay.json"]),
        (["docs"], ["docs/r.replay.json", "docs/a/b/deep.replay.json"]),
        (
            ["docs/**/*.replay.json"],
            ["docs/a/b/deep.replay.json", "docs/node_modules/x.replay.json", "docs/r.replay.json"],
        ),
        (["docs/*.md"], ["docs/r.replay.json"]),
        (["docs/r.md", "docs", "docs/r.replay.json"], ["docs/r.replay.json", "docs/a/b/deep.replay.json"]),
    ],
)
def test_reports_sidecars_folders_and_globs_stand_for_each_report_once(
    arguments: list[str], expected: list[str], many: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(many.root)
    assert reports(*arguments) == expected


def test_a_report_in_a_folder_that_shows_a_block_but_has_no_sidecar_is_not_passed_over(many: Repository) -> None:
    many.write("docs/a/lost.md", "# x\n\n```yaml ahd-replay\nschema_version: 1\n```\n")
    done = many.verify("--json", "docs/a")
    by_name = {report["report"]: report for report in json.loads(done.stdout)["reports"]}
    assert by_name["docs/a/lost.md"]["problem"]["kind"] == "no sidecar"
    assert done.returncode == 2


@pytest.mark.parametrize("argument", ["empty", "docs/*.nothing"])
def test_what_stands_for_no_report_is_a_usage_error(argument: str, many: Repository) -> None:
    (many.root / "empty").mkdir()
    done = many.verify(argument)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_no_argument_is_a_usage_error(many: Repository) -> None:
    done = many.reenact("verify-replay")
    assert done.returncode == 2
    assert "name at least one report" in done.stderr


def test_drift_outranks_what_could_not_be_checked(many: Repository) -> None:
    many.write("docs/bad.replay.json", "{}")
    assert many.verify("docs").returncode == 2
    many.write("tokens/t.yml", "id: other\n")
    assert many.verify("docs").returncode == 1


def test_reports_that_hold_take_one_line_each_and_the_count_comes_last(many: Repository) -> None:
    for name in ("docs/r", "docs/a/b/deep"):
        many.write(f"{name}.replay.json", json.dumps(fields(backfilled=True)))
    lines = many.verify("docs").stdout.splitlines()
    assert lines == ["ok    docs/r.md", "ok    docs/a/b/deep.md", "2 reports: 2 hold"]
    assert len(many.verify("--verbose", "docs").stdout.splitlines()) > 10


def test_a_folder_given_as_root_is_where_paths_are_looked_up(many: Repository) -> None:
    many.write("other/tokens/t.yml", "id: other\n")
    many.write("other/briefs/b.yml", "x: 1\n")
    assert many.verify("--root", "other", "docs/r.md").returncode == 1
    assert many.verify("--root", "nowhere", "docs/r.md").returncode == 2


def test_equal_inputs_are_parsed_once(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.root)
    with Verifier() as verifier:
        for number in range(20):
            repository.write(f"tokens/{number}.yml", TOKEN)
            token = {"path": f"tokens/{number}.yml", "hash": fields()["token"]["hash"]}
            repository.sidecar(f"docs/{number}.replay.json", token=token)
            assert verifier.verify(f"docs/{number}.md").verdict == "holds"
        assert verifier.hashes.parsed == 2


def test_a_thousand_reports_are_verified_in_one_call(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = repository.recorded()
    text = json.dumps(fields(ahd_commit=commit, git_dirty=False))
    for number in range(999):
        repository.write(f"docs/many/{number:03}.replay.json", text)
    repository.write("docs/many/broken.replay.json", text.replace("a094", "b094"))
    monkeypatch.chdir(repository.root)
    seen: list[tuple[int, int]] = []
    verification = verify_reports(["docs"], progress=lambda done, total: seen.append((done, total)))
    assert (len(verification.reports), verification.count("holds"), verification.count("drifted")) == (1001, 1000, 1)
    assert seen == [(number, 1001) for number in range(1, 1002)]


def on_a_terminal(repository: Repository, *arguments: str) -> str:
    """What the command writes to a terminal on stderr."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "reenact", *arguments],
        cwd=repository.root,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
        stdout=subprocess.DEVNULL,
        stderr=child,
    )
    os.close(child)
    shown: list[bytes] = []

    def drain() -> None:
        try:
            while data := os.read(parent, 65536):
                shown.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    process.wait(timeout=60)
    reader.join(timeout=60)
    os.close(parent)
    return b"".join(shown).decode()


def test_a_progress_bar_is_shown_on_a_terminal_and_nowhere_else(many: Repository) -> None:
    assert "2/2" in on_a_terminal(many, "verify-replay", "docs")
    done = many.verify("docs")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_argument_that_does_not_exist_is_a_report_without_a_sidecar(tmp_path: Path) -> None:
    target = expand([str(tmp_path / "none.md")])
    with Verifier() as verifier:
        report = verifier.verify(target[0])
    assert report.problem is not None
    assert report.problem.kind == "no sidecar"
    with pytest.raises(UsageError):
        expand([str(tmp_path)])
