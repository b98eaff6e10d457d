"""Backfill writes what the original's script writes; what that loses is kept only when asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reenact.provenance.hashing import hash_raw, hash_structured
from tests.provenance.verify.repository import VECTORS, Repository

CASE: dict[str, Any] = json.loads((VECTORS / "backfill_cases.json").read_text(encoding="utf-8"))
LIVE = CASE["files"]["docs/evals/live.md"]


class Evals(Repository):
    """The synthetic repository of the vectors."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve()
        for name, content in CASE["files"].items():
            self.write(name, content)
        self.first = self.commit("one")
        self.write("tokens/tok.yml", "id: tok\npalette: [a, c]\n")
        self.commit("two")
        self.write("docs/evals/untracked.md", LIVE)
        self.write("docs/evals/live.md", LIVE + "\nan edit\n")

    def expected(self, text: str) -> str:
        return text.replace(CASE["commit1"], self.first).replace(CASE["commit1"][:12], self.first[:12])

    def sidecars(self) -> dict[str, str]:
        found = self.root.rglob("*.replay.json")
        return {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8") for path in found}

    def written(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.root / f"docs/evals/{name}.replay.json").read_text())
        return value

    def failures(self, *options: str) -> dict[str, str]:
        done = self.reenact("backfill", "--root", "docs/evals", "--json", *options)
        document = json.loads(done.stdout)
        return {one["report"].removeprefix("docs/evals/"): one["reason"] for one in document["failed"]}


@pytest.fixture
def evals(tmp_path: Path) -> Evals:
    return Evals(tmp_path / "evals")


def without_parser_words(output: str) -> str:
    return re.sub(r"(did not parse as YAML: ).*?(?=\n  - docs|\Z)", r"\1", output, flags=re.DOTALL)


def test_the_sidecars_and_the_output_are_the_originals(evals: Evals) -> None:
    done = evals.reenact("backfill", "--root", "docs/evals")
    assert done.returncode == CASE["real"]["exit"]
    assert without_parser_words(done.stdout) == without_parser_words(evals.expected(CASE["real"]["stdout"]))
    assert done.stderr == ""
    assert evals.sidecars() == {name: evals.expected(text) for name, text in CASE["sidecars"].items()}


def test_a_dry_run_writes_nothing_and_fails_nothing(evals: Evals) -> None:
    before = evals.sidecars()
    done = evals.reenact("backfill", "--root", "docs/evals", "--dry-run")
    assert done.returncode == CASE["dry"]["exit"] == 0
    assert without_parser_words(done.stdout) == without_parser_words(evals.expected(CASE["dry"]["stdout"]))
    assert evals.sidecars() == before


def test_a_second_backfill_skips_what_the_first_one_wrote(evals: Evals) -> None:
    evals.reenact("backfill", "--root", "docs/evals")
    before = evals.sidecars()
    assert "written=0 skipped=20 failed=10" in evals.reenact("backfill", "--root", "docs/evals").stdout
    assert evals.sidecars() == before


def test_the_folder_of_reports_is_docs_evals_unless_named(evals: Evals) -> None:
    assert "written=19" in evals.reenact("backfill", "--dry-run").stdout
    assert "written=1 " in evals.reenact("backfill", "--dry-run", "--root", "docs/evals/sub").stdout


def test_what_was_backfilled_verifies_at_its_commit(evals: Evals) -> None:
    evals.reenact("backfill", "--root", "docs/evals")
    (evals.root / "docs/evals/already.replay.json").unlink()
    report = evals.verified("--at-commit", "docs/evals/header-late.md")
    assert report["verdict"] == "holds"
    assert evals.verified("docs/evals/header-late.md")["checks"]["token"]["status"] == "drifted"


def test_what_the_original_loses_is_kept_when_asked_for(evals: Evals) -> None:
    evals.reenact("backfill", "--root", "docs/evals", "--recover-lost")
    brief = {"path": "briefs/b.yml", "hash": hash_structured(CASE["files"]["briefs/b.yml"])}
    assert evals.written("critique-with-brief")["brief"] == brief
    assert evals.written("critique")["brief"] is None
    assert evals.written("critique")["conditions"]["effective"] == ["raw", "compiled"]
    assert evals.written("brief-empty")["brief"] == {"path": "briefs/empty.yml", "hash": hash_structured("")}
    assert evals.written("empty-token")["token"] == {"path": "tokens/empty.yml", "hash": hash_structured("")}
    assert [model["id"] for model in evals.written("model-indent-0")["models"]] == ["cf:@cf/a/b", "claude-x"]
    assert evals.written("brief-dup")["brief"]["hash"] == hash_raw(b"a: 1\na: 2\n")


def test_a_brief_that_is_gone_is_a_failure_when_asked_not_to_lose_it(evals: Evals) -> None:
    failures = evals.failures("--recover-lost")
    assert "briefs/none.yml not present" in failures["brief-missing.md"]
    assert "/abs/b.yml not present" in failures["brief-absolute.md"]
    assert "remove it and backfill again" in failures["already.md"]
    assert not (evals.root / "docs/evals/brief-missing.replay.json").exists()


def test_a_foreign_absolute_brief_is_found_by_its_tail_when_asked_for(evals: Evals) -> None:
    evals.write("docs/evals/abs.md", LIVE.replace("`briefs/b.yml`", "`/home/runner/ahd/briefs/b.yml`"))
    evals.commit("three")
    evals.reenact("backfill", "--root", "docs/evals", "--recover-lost")
    assert evals.written("abs")["brief"]["path"] == "briefs/b.yml"


def test_the_commit_is_the_one_that_brought_the_run_when_asked_for(evals: Evals) -> None:
    evals.write("docs/evals/live.md", LIVE + "\na typo fixed\n")
    last = evals.commit("Fix a typo")
    evals.reenact("backfill", "--root", "docs/evals", "--dry-run")
    evals.reenact("backfill", "--root", "docs/evals")
    assert evals.written("live")["ahd_commit"] == last
    (evals.root / "docs/evals/live.replay.json").unlink()
    evals.reenact("backfill", "--root", "docs/evals", "--recover-lost")
    assert evals.written("live")["ahd_commit"] == evals.first
    assert evals.written("live")["token"]["hash"] == hash_structured(CASE["files"]["tokens/tok.yml"])


def test_outside_a_repository_and_without_a_folder_it_is_a_usage_error(tmp_path: Path) -> None:
    plain = Repository(tmp_path / "plain")
    for arguments in (("--root", "docs"), ("--root", "nothing"), ()):
        done = plain.reenact("backfill", *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")


def test_a_link_is_neither_entered_nor_read_nor_written_through(evals: Evals) -> None:
    outside = evals.root.parent / "outside"
    outside.mkdir()
    (outside / "stolen.md").write_text(LIVE)
    (evals.root / "docs/evals/linked").symlink_to(outside)
    (evals.root / "docs/evals/one.md").symlink_to(outside / "stolen.md")
    (evals.root / "docs/evals/live.replay.json").symlink_to(outside / "written.json")
    failures = evals.failures()
    assert "is not read" in failures["one.md"]
    assert sorted(path.name for path in outside.iterdir()) == ["stolen.md"]


def test_foreign_text_forges_no_line(evals: Evals) -> None:
    forged = "x\nwrote docs/evals/forged.replay.json\x1b[31m"
    evals.write("docs/evals/forged.md", LIVE.replace("briefs/b.yml", forged))
    evals.write("docs/evals/token.md", LIVE.replace("· tok ·", "· to\x1b[31mk ·"))
    evals.write("docs/evals/a\nwrote b.md", LIVE)
    evals.commit("three")
    for options in ((), ("--recover-lost",)):
        done = evals.reenact("backfill", "--root", "docs/evals", "--dry-run", *options)
        assert "\x1b" not in done.stdout
        assert not [line for line in done.stdout.splitlines() if line.startswith("wrote")]
