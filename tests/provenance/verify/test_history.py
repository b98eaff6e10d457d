"""Git's word: inputs as of the recorded commit, who changed them later, and whether the record fits the history."""

from __future__ import annotations

import shutil

import pytest

from reenact.provenance.hashing import hash_structured
from tests.provenance.verify.repository import BRIEF, PACKAGE, TOKEN, Repository, raw


def test_drift_names_the_commit_that_changed_the_input_not_one_that_changed_a_comment(repository: Repository) -> None:
    repository.recorded()
    repository.write("tokens/t.yml", "# a comment\n" + TOKEN)
    repository.commit("Only a comment")
    repository.write("tokens/t.yml", TOKEN.replace("white", "red"))
    culprit = repository.commit("Another colour")
    repository.write("tokens/t.yml", TOKEN.replace("white", "blue"))
    repository.commit("Yet another")
    check = repository.verified()["checks"]["token"]
    assert (check["status"], check["changed_by"]["commit"]) == ("drifted", culprit)


def test_drift_without_a_recorded_commit_names_the_last_change_away_from_the_hash(repository: Repository) -> None:
    repository.sidecar()
    repository.commit()
    repository.write("tokens/t.yml", "id: other\n")
    culprit = repository.commit("Change it")
    assert repository.verified()["checks"]["token"]["changed_by"]["commit"] == culprit


def test_drift_that_is_not_committed_says_so(repository: Repository) -> None:
    repository.recorded()
    repository.write("tokens/t.yml", "id: other\n")
    check = repository.verified()["checks"]["token"]
    assert "not committed" in check["detail"]
    assert "changed_by" not in check


def test_at_commit_reads_the_inputs_as_they_were_and_names_the_later_change(repository: Repository) -> None:
    repository.recorded()
    repository.write("tokens/t.yml", "id: other\n")
    culprit = repository.commit("Change it")
    assert repository.verified()["exit"] == 1
    report = repository.verified("--at-commit", "docs/r.md")
    token, brief = report["checks"]["token"], report["checks"]["brief"]
    assert (report["exit"], token["status"], token["changed_by"]["commit"]) == (0, "ok", culprit)
    assert "changed later" in token["detail"]
    assert "changed_by" not in brief


def test_at_commit_finds_a_foreign_absolute_path_by_its_tail(repository: Repository) -> None:
    path = "/home/runner/work/ahd/ahd/tokens/t.yml"
    repository.recorded(token={"path": path, "hash": hash_structured(TOKEN)})
    (repository.root / "tokens/t.yml").unlink()
    repository.commit("gone")
    check = repository.verified("--at-commit", "docs/r.md")["checks"]["token"]
    assert (check["status"], check["found"]) == ("relocated", "tokens/t.yml")


def test_at_commit_fails_where_the_commit_held_another_input(repository: Repository) -> None:
    repository.recorded(brief=raw("briefs/b.yml", "not what was committed"))
    report = repository.verified("--at-commit", "docs/r.md")
    assert (report["exit"], report["checks"]["brief"]["status"]) == (1, "drifted")


@pytest.mark.parametrize("commit", [None, "a" * 40])
def test_at_commit_never_passes_without_the_commit(commit: str | None, repository: Repository) -> None:
    repository.sidecar(ahd_commit=commit, git_dirty=None if commit is None else False)
    repository.commit()
    report = repository.verified("--at-commit", "docs/r.md")
    statuses = {name: report["checks"][name]["status"] for name in ("token", "brief", "commit")}
    assert report["exit"] == 1
    assert set(statuses.values()) == {"unavailable"}


def test_at_commit_follows_a_link_inside_the_commit_only(repository: Repository) -> None:
    (repository.root / "tokens/in.yml").symlink_to("t.yml")
    (repository.root / "tokens/out.yml").symlink_to("/etc/hostname")
    inside = {"path": "tokens/in.yml", "hash": hash_structured(TOKEN)}
    repository.recorded(token=inside, brief=raw("tokens/out.yml", "x"))
    report = repository.verified("--at-commit", "docs/r.md")
    assert report["checks"]["token"]["status"] == "ok"
    assert report["checks"]["brief"]["status"] == "refused"


def test_a_commit_that_this_clone_lacks_is_a_warning_and_fails_only_when_strict(repository: Repository) -> None:
    repository.commit()
    repository.sidecar(ahd_commit="a" * 40, git_dirty=False)
    report = repository.verified()
    assert (report["exit"], report["checks"]["commit"]["level"]) == (0, "warn")
    assert repository.verify("--strict", "docs/r.md").returncode == 1


@pytest.mark.parametrize(
    ("commit", "dirty"),
    [("not a sha", None), ("--upload-pack=x", False), (None, True), (None, False), ("a" * 40, None)],
)
def test_a_commit_and_a_dirtiness_that_cannot_both_be_true_are_inconsistent(
    commit: str | None, dirty: bool | None, repository: Repository
) -> None:
    repository.commit()
    repository.sidecar(ahd_commit=commit, git_dirty=dirty)
    report = repository.verified()
    assert (report["exit"], report["checks"]["commit"]["status"]) == (1, "inconsistent")


def test_a_version_that_the_commit_does_not_have_is_inconsistent(repository: Repository) -> None:
    repository.recorded(ahd_version="9.9.9")
    report = repository.verified()
    assert (report["exit"], report["checks"]["version"]["status"]) == (1, "inconsistent")


def test_a_version_is_not_compared_with_a_manifest_of_another_package_or_of_a_dirty_tree(
    repository: Repository,
) -> None:
    commit = repository.recorded()
    repository.sidecar(ahd_version="9.9.9", ahd_commit=commit, git_dirty=True)
    assert repository.verified()["exit"] == 0
    repository.write("package.json", PACKAGE.replace("@adastracomputing/ahd", "mine"))
    repository.recorded(ahd_version="9.9.9")
    report = repository.verified()
    assert (report["exit"], "version" in report["checks"]) == (0, False)


def test_a_run_recorded_as_clean_must_have_read_what_its_commit_holds(repository: Repository) -> None:
    commit = repository.commit()
    changed = TOKEN.replace("white", "red")
    repository.write("tokens/t.yml", changed)
    token = {"path": "tokens/t.yml", "hash": hash_structured(changed)}
    repository.sidecar(ahd_commit=commit, git_dirty=False, token=token)
    report = repository.verified()
    assert report["checks"]["token"]["status"] == "ok"
    assert (report["exit"], report["checks"]["dirty"]["status"]) == (1, "inconsistent")
    repository.sidecar(ahd_commit=commit, git_dirty=True, token=token)
    assert repository.verified()["exit"] == 0


def test_an_ignored_input_says_nothing_about_dirtiness(repository: Repository) -> None:
    repository.write(".gitignore", "briefs/\n")
    repository.recorded()
    assert repository.verified()["exit"] == 0


def test_line_ends_that_git_converts_are_no_contradiction(repository: Repository) -> None:
    repository.write(".gitattributes", "*.md text eol=crlf\n")
    content = "# brief\r\n\r\nwords\r\n"
    repository.write("briefs/b.md", content)
    repository.recorded(brief=raw("briefs/b.md", content))
    assert repository.git("status", "--porcelain", "--", "briefs") == ""
    report = repository.verified()
    assert (report["exit"], report["checks"]["dirty"]["status"]) == (0, "ok")


def test_an_input_that_git_filters_is_no_contradiction(repository: Repository) -> None:
    repository.write(".gitattributes", "*.md filter=upper\n")
    repository.write("briefs/b.md", "words\n")
    repository.commit("before")
    repository.git("config", "filter.upper.clean", "tr a-z A-Z")
    repository.write("briefs/b.md", "more words\n")
    repository.recorded(brief=raw("briefs/b.md", "more words\n"))
    assert repository.git("show", "HEAD:briefs/b.md") == "MORE WORDS"
    assert repository.verified()["checks"]["dirty"]["status"] == "ok"


def test_a_replacement_object_does_not_change_what_a_commit_held(repository: Repository) -> None:
    commit = repository.recorded()
    repository.write("tokens/t.yml", "id: other\n")
    other = repository.commit("other")
    repository.git("replace", commit, other)
    assert repository.verified("--at-commit", "docs/r.md")["exit"] == 0


def test_the_repository_of_a_hook_does_not_mislead(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.recorded()
    monkeypatch.setenv("GIT_DIR", str(repository.root.parent / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", "nothing")
    assert repository.verified("--at-commit", "docs/r.md")["exit"] == 0


def test_a_root_below_the_top_of_the_work_tree_is_the_root_at_the_commit_too(repository: Repository) -> None:
    inner = Repository(repository.root / "packages/ahd")
    commit = repository.commit()
    inner.sidecar(ahd_commit=commit, git_dirty=False)
    shutil.rmtree(repository.root / "tokens")
    report = repository.verified("--at-commit", "packages/ahd/docs/r.md")
    assert report["exit"] == 0
    assert report["checks"]["version"]["status"] == "ok"


def test_without_git_the_inputs_are_still_verified(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.sidecar(ahd_commit="a" * 40, git_dirty=False)
    monkeypatch.setenv("PATH", "")
    report = repository.verified()
    assert (report["exit"], report["checks"]["commit"]["status"]) == (0, "unknown commit")
    repository.write("briefs/b.yml", BRIEF + "more: x\n")
    assert repository.verified()["checks"]["brief"]["status"] == "drifted"


def test_the_first_manifest_that_states_a_name_and_a_version_is_the_one_compared(repository: Repository) -> None:
    repository.write("package.json", '{"name":"frontend","version":"1.0.0"}')
    repository.write("pyproject.toml", '[project]\nname = "@adastracomputing/ahd"\nversion = "2.0.0"\n')
    repository.recorded()
    assert "version" not in repository.verified()["checks"]
    repository.write("package.json", '{"name":"@adastracomputing/ahd","version":""}')
    repository.recorded(ahd_version="2.0.0")
    assert repository.verified()["checks"]["version"]["status"] == "ok"
