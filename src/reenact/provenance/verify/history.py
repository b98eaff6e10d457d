"""Checking a sidecar against git's history: who changed an input, whether its commit, version and dirtiness fit."""

from __future__ import annotations

import dataclasses
from typing import Final

from reenact.provenance.git import Commit, Repository, is_commit_id
from reenact.provenance.manifests import read_manifest
from reenact.provenance.root import FOREIGN_PACKAGE
from reenact.provenance.safe_paths import FileRefused, components, is_absolute
from reenact.provenance.sidecar.sidecar import AnySidecar, Sidecar, VerifiableInput
from reenact.provenance.verify.inputs import Hashes, check_input
from reenact.provenance.verify.model import Check, Status
from reenact.provenance.verify.sources import CommitTree

_MAX_TAILS: Final = 8
_MAX_COMMITS_READ: Final = 500
_MAX_BYTES_READ: Final = 16 << 20
_UNCOMMITTED: Final = "changed in the work tree, not committed"
_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/v1\noid "


def explain(
    check: Check, recorded: VerifiableInput, sidecar: AnySidecar, repository: Repository | None, hashes: Hashes
) -> Check:
    """The check of a changed or missing input with the commit that changed or deleted it, where git knows it."""
    if repository is None:
        return check
    if check.status is Status.MISSING:
        return _explain_absence(check, recorded, repository)
    if check.status in (Status.DRIFTED, Status.UNPARSEABLE) and check.found:
        since = sidecar.commit if sidecar.commit and repository.has_commit(sidecar.commit) else None
        changed, detail = find_change(repository, check.found, recorded, since, hashes)
        return dataclasses.replace(check, changed_by=changed, detail=check.detail or detail)
    return check


def _explain_absence(check: Check, recorded: VerifiableInput, repository: Repository) -> Check:
    """A file that a commit deleted is erased on record; one that git never had is missing."""
    names = components(recorded.path)
    tails = [names[start:] for start in range(len(names))][-_MAX_TAILS:] if is_absolute(recorded.path) else [names]
    for tail in tails:
        deletion = repository.deletion_of("/".join(tail))
        if deletion is not None:
            detail = "deleted from the repository"
            return dataclasses.replace(check, status=Status.ERASED, detail=detail, changed_by=deletion)
    return check


def find_change(
    repository: Repository, path: str, recorded: VerifiableInput, since: str | None, hashes: Hashes
) -> tuple[Commit | None, str]:
    """The commit after which a file no longer has the recorded hash, and a word on it where there is none.

    With `since`, the first one after that commit; else the one after the last commit that still had the hash.
    A commit that changed only what the hash does not cover is passed over.
    """
    history = repository.history(path, since)
    look = _Look(repository, path, recorded, hashes)
    try:
        if since is not None:
            changed = next((commit for commit in reversed(history) if not look.holds_at(commit.id)), None)
            return changed, "" if changed else _UNCOMMITTED
        later: Commit | None = None
        for commit in history:
            if look.holds_at(commit.id):
                return later, "" if later else _UNCOMMITTED
            later = commit
    except _Exhausted:
        return None, "its history is too long to say which commit changed it"
    return None, "no commit of this file has the recorded hash"


class _Exhausted(Exception):
    """A search has read as much as it may."""


class _Look:
    """Looks at one file commit by commit, within a budget of commits and bytes."""

    def __init__(self, repository: Repository, path: str, recorded: VerifiableInput, hashes: Hashes) -> None:
        self._repository = repository
        self._path = path
        self._recorded = recorded
        self._hashes = hashes
        self._commits = _MAX_COMMITS_READ
        self._bytes = _MAX_BYTES_READ

    def holds_at(self, commit: str) -> bool:
        try:
            data = self._repository.read(commit, self._path)
        except FileRefused:
            return False
        self._commits -= 1
        self._bytes -= len(data)
        if self._commits < 0 or self._bytes < 0:
            raise _Exhausted
        return self._hashes.match(data, self._recorded).holds


def check_commit(sidecar: AnySidecar, repository: Repository | None, why_not: str, *, needed: bool) -> Check:
    """The recorded commit: one that can be a commit, agrees with the dirtiness, and is in this repository.

    With `needed`, a commit that cannot be read is a failure, since the inputs were to be read from it. `why_not` says
    why there is no repository to ask.
    """
    commit = sidecar.commit
    if commit is None:
        if sidecar.dirty is not None:
            return Check("commit", Status.INCONSISTENT, "no commit is recorded, but its dirtiness is")
        status = Status.UNAVAILABLE if needed else Status.NOT_CHECKED
        return Check("commit", status, "the sidecar records no commit")
    if not is_commit_id(commit):
        return Check("commit", Status.INCONSISTENT, f"not a commit id: {commit}")
    if sidecar.dirty is None:
        return Check("commit", Status.INCONSISTENT, "a commit is recorded without its dirtiness")
    if repository is None or not repository.has_commit(commit):
        shallow = "this clone does not have it; `git fetch --unshallow` may bring it"
        status = Status.UNAVAILABLE if needed else Status.UNKNOWN_COMMIT
        return Check("commit", status, f"{commit[:12]}: {shallow if repository else why_not}")
    return Check("commit", Status.OK, commit[:12])


def check_dirtiness(
    sidecar: AnySidecar, tree: CommitTree | None, repository: Repository | None, hashes: Hashes
) -> Check | None:
    """A run that was clean at its commit read what that commit holds; None where that cannot be told."""
    if sidecar.dirty is None or tree is None or repository is None:
        return None
    if sidecar.dirty:
        return Check("dirty", Status.OK, "the work tree had uncommitted changes")
    for recorded in sidecar.verifiable_inputs:
        if _contradicts(tree, recorded, repository, hashes):
            detail = f"recorded as clean, but {recorded.name} was another file at {tree.commit[:12]}"
            return Check("dirty", Status.INCONSISTENT, detail)
    return Check("dirty", Status.OK, "the work tree was clean")


def _contradicts(tree: CommitTree, recorded: VerifiableInput, repository: Repository, hashes: Hashes) -> bool:
    """Whether the commit holds the input with another value than the run read. An input that git does not
    track says nothing, and neither does one that git stores in another form than it checks out."""
    check = check_input(recorded, tree, repository.root, hashes)
    if check.status not in (Status.DRIFTED, Status.UNPARSEABLE) or check.found is None:
        return False
    data = tree.read(tuple(check.found.split("/")))
    lines = data.replace(b"\r\n", b"\n")
    forms = (lines, lines.replace(b"\n", b"\r\n"))
    if any(hashes.match(form, recorded).holds for form in forms) or data.startswith(_LFS_POINTER):
        return False
    return not repository.converts(check.found) and not repository.hides_changes(check.found)


def check_version(sidecar: AnySidecar, tree: CommitTree | None) -> Check | None:
    """The recorded version against the manifest at the recorded commit; None where nothing can be compared."""
    if tree is None or sidecar.dirty:
        return None
    name = FOREIGN_PACKAGE if isinstance(sidecar, Sidecar) else sidecar.program
    version = _manifest_version(tree, name)
    if version is None:
        return None
    if version != sidecar.version:
        detail = f"recorded {sidecar.version}, but {tree.commit[:12]} has version {version}"
        return Check("version", Status.INCONSISTENT, detail)
    return Check("version", Status.OK, version)


def _manifest_version(tree: CommitTree, name: str) -> str | None:
    """The version of the package `name` as of a commit: what the first manifest says that states a name and a
    version, if it is that package's."""
    for file in ("package.json", "pyproject.toml"):
        table = _manifest(tree, file)
        stated, version = table.get("name"), table.get("version")
        if isinstance(stated, str) and stated and isinstance(version, str) and version:
            return version if stated == name else None
    return None


def _manifest(tree: CommitTree, file: str) -> dict[str, object]:
    try:
        return read_manifest(file, tree.read((file,)))
    except FileRefused:
        return {}
