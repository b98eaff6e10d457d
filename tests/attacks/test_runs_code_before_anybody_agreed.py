"""A stranger's repository wants its own commands run while a report in it is only being looked at."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.provenance.verify.repository import Repository

LOOKS = (
    ("rerun", "docs/r.md"),
    ("verify-replay", "docs/r.md"),
    ("verify-replay", "docs/r.md", "--at-commit"),
    ("backfill", "--dry-run", "--root", "docs"),
)


COMMANDS = (
    "filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.evil.command", "diff.external",
    "core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass", "core.alternateRefsCommand", "gpg.program",
    "credential.helper", "merge.evil.driver",
)  # fmt: skip


class Trapped(Repository):
    """Every setting of a repository that names a command names one that leaves a file behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.mark = folder.parent / "mark"
        self.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
        self.recorded(argv=["true"])
        self.write("briefs/b.yml", "title: Later\n")
        self.commit("later")
        script = self.write(".git/evil", f"#!/bin/sh\necho $* >> {self.mark}\ncat\n")
        script.chmod(0o755)
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
            self.write(f".git/hooks/{hook}", script.read_bytes()).chmod(0o755)
        for name in COMMANDS:
            self.git("config", name, f"{script} {name}")
        self.git("config", "log.showSignature", "true")
        self.git("config", "filter.evil.required", "true")

    def touch_all(self) -> None:
        """Git looks at files again whose times changed."""
        for path in self.root.rglob("*.yml"):
            path.touch()


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trapped:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return Trapped(tmp_path / "trapped")


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_nothing_of_the_repository_runs_while_it_is_looked_at(command: tuple[str, ...], trapped: Trapped) -> None:
    """Filters, hooks, drivers, pagers and helpers of a mailed repository wait for a yes."""
    trapped.touch_all()
    trapped.mark.unlink(missing_ok=True)
    done = trapped.reenact(*command, input="n\n")
    assert done.returncode in (0, 1, 4), done.stderr
    assert not trapped.mark.exists(), trapped.mark.read_text()


def test_the_traps_are_real(trapped: Trapped) -> None:
    """The control: git itself, unguarded, springs them."""
    trapped.mark.unlink(missing_ok=True)
    place = trapped.root.parent / "tree"
    subprocess.run(
        ["git", "worktree", "add", "--detach", str(place)], cwd=trapped.root, check=True, capture_output=True
    )
    assert "filter.evil.smudge" in trapped.mark.read_text()


def test_after_a_yes_the_files_are_checked_out_as_the_repository_says(trapped: Trapped) -> None:
    """Who agrees to run a repository's command agrees to its filters too: without them its files are other files."""
    done = trapped.reenact("rerun", "docs/r.md", input="y\n")
    assert done.returncode == 0, done.stderr
    assert "filter.evil.smudge" in trapped.mark.read_text()
    assert "reference-transaction" not in trapped.mark.read_text()
