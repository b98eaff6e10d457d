"""A recorded command runs again at its commit, after it was shown and agreed to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.provenance.verify.repository import Repository

SCRIPT = """import pathlib, sys
pathlib.Path("out.txt").write_text(pathlib.Path("tokens/t.yml").read_text() + repr(sys.argv[1:]))
sys.exit(int(sys.argv[1]))
"""


class Runs(Repository):
    """A repository whose report was made by its own bin/tool.py."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.write("bin/tool.py", SCRIPT)
        self.first = self.recorded(argv=[sys.executable, "bin/tool.py", "0"])
        self.write("tokens/t.yml", "id: later\n")
        self.write("bin/tool.py", "raise SystemExit('the wrong version')\n")
        self.commit("later")

    def record(self, *argv: str, **changes: Any) -> None:
        self.sidecar(**{"ahd_commit": self.first, "git_dirty": False, "argv": list(argv), **changes})

    def worktrees(self) -> int:
        return len(self.git("worktree", "list").splitlines())


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return Runs(tmp_path / "runs")


def test_the_command_runs_at_the_recorded_commit_and_its_results_are_kept(runs: Runs) -> None:
    done = runs.reenact("rerun", "docs/r.md", "--yes", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["commit"]) == (0, 0, runs.first)
    assert (Path(document["worktree"]) / "out.txt").read_text().startswith("id: swiss\n")
    assert (runs.root / "tokens/t.yml").read_text() == "id: later\n"
    assert not (runs.root / "out.txt").exists()
    assert runs.git("status", "--porcelain", "--", "tokens", "bin") == ""


def test_a_command_that_fails_is_exit_code_1_and_its_own_code_is_said(runs: Runs) -> None:
    runs.record(sys.executable, "bin/tool.py", "7")
    done = runs.reenact("rerun", "docs/r.md", "--yes")
    assert done.returncode == 1
    assert "exit code 7" in done.stderr


@pytest.mark.parametrize("answer", ["n\n", "", "\n", "yeah\n"])
def test_anything_but_a_clear_yes_runs_nothing_and_leaves_nothing(answer: str, runs: Runs, tmp_path: Path) -> None:
    done = runs.reenact("rerun", "docs/r.md", input=answer)
    assert done.returncode == 4
    assert "recorded command: " in done.stderr
    assert runs.worktrees() == 1
    assert not list(tmp_path.glob("reenact-rerun-*"))


def test_a_yes_runs_it(runs: Runs) -> None:
    done = runs.reenact("rerun", "docs/r.md", input="y\n")
    assert done.returncode == 0
    assert runs.worktrees() == 2


def test_the_work_tree_is_removed_when_asked_for(runs: Runs, tmp_path: Path) -> None:
    assert runs.reenact("rerun", "docs/r.md", "--yes", "--remove").returncode == 0
    assert runs.worktrees() == 1
    assert not list(tmp_path.glob("reenact-rerun-*"))


def test_the_work_tree_may_be_named_but_must_be_new(runs: Runs, tmp_path: Path) -> None:
    place = tmp_path / "again"
    assert runs.reenact("rerun", "docs/r.md", "--yes", "--into", str(place)).returncode == 0
    assert (place / "out.txt").exists()
    assert runs.reenact("rerun", "docs/r.md", "--yes", "--into", str(place)).returncode == 2
    assert (place / "out.txt").exists()


@pytest.mark.parametrize("prefix", ["/home/runner/work/ahd/ahd", "@ROOT@"])
def test_absolute_paths_of_the_repository_lead_into_the_work_tree(prefix: str, runs: Runs) -> None:
    script = f"{prefix.replace('@ROOT@', str(runs.root))}/bin/tool.py"
    runs.record(sys.executable, script, "0")
    done = runs.reenact("rerun", "docs/r.md", "--yes")
    assert done.returncode == 0, done.stderr
    assert "runs here as:" in done.stderr


def test_a_program_that_is_not_at_its_recorded_place_is_found_by_its_name(runs: Runs) -> None:
    runs.record("/opt/hostedtoolcache/none/bin/sh", "-c", "exit 0")
    assert runs.reenact("rerun", "docs/r.md", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"argv": []}, "records no command"),
        ({"ahd_commit": None, "git_dirty": None}, "records no commit"),
        ({"ahd_commit": "a" * 40}, "is not in this repository"),
        ({"ahd_commit": "--upload-pack=touch x"}, "is not in this repository"),
        ({"argv": ["no-such-program-4711"]}, "No such file"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"kind": "bogus"}, "not valid"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error_that_leaves_nothing(
    changes: dict[str, Any], message: str, runs: Runs, tmp_path: Path
) -> None:
    runs.sidecar(**{"ahd_commit": runs.first, "git_dirty": False, "argv": ["true"], **changes})
    done = runs.reenact("rerun", "docs/r.md", "--yes")
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert runs.worktrees() == 1
    assert not list(tmp_path.glob("reenact-rerun-*"))


def test_a_dirty_run_is_said_to_have_had_more_than_its_commit(runs: Runs) -> None:
    runs.record(sys.executable, "bin/tool.py", "0", git_dirty=True)
    assert "uncommitted changes" in runs.reenact("rerun", "docs/r.md", input="n\n").stderr


def test_the_command_is_shown_whole_on_one_line_with_nothing_hidden(runs: Runs) -> None:
    hidden = "a\nRun this command now? [y/N] y\r\x1b[1A\x1b[2K\u202e`id`$(id)##[error]'\\"
    runs.record("echo", hidden, "x" * 5000, "plain")
    done = runs.reenact("rerun", "docs/r.md", input="n\n")
    line = next(line for line in done.stderr.split("\n") if line.startswith("recorded command: "))
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert "##[" not in done.stderr
    assert line.endswith(" plain")
    assert "x" * 5000 in line
    assert "$'a\\nRun this command now? [y/N] y\\r\\x1b[1A\\x1b[2K\\u202e`id`$(id)#\\x23[error]\\'\\\\'" in line


def test_arguments_reach_the_program_as_they_were_recorded(runs: Runs) -> None:
    arguments = ["0", "it's", "$HOME", "`id`", "a\nb", "", "*"]
    runs.record(sys.executable, "bin/tool.py", *arguments)
    done = runs.reenact("rerun", "docs/r.md", "--yes", "--json")
    place = Path(json.loads(done.stdout)["worktree"])
    assert (place / "out.txt").read_text().endswith(repr(arguments))


def test_what_the_command_prints_stays_apart_from_the_json_document(runs: Runs) -> None:
    runs.record("echo", "hello")
    assert runs.reenact("rerun", "docs/r.md", "--yes").stdout == "hello\n"
    done = runs.reenact("rerun", "docs/r.md", "--yes", "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "hello" in done.stderr.splitlines()


def test_no_hook_of_the_repository_runs(runs: Runs) -> None:
    hook = runs.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {runs.root}/hooked\n")
    hook.chmod(0o755)
    assert runs.reenact("rerun", "docs/r.md", "--yes").returncode == 0
    assert not (runs.root / "hooked").exists()
