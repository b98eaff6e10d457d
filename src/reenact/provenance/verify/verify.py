"""Verify reports: are the inputs that a replay block names still the ones that the run read?

For each report, in this order: read the sidecar; hash each input; ask git about the commit, the dirtiness and
the version; compare the markdown's block with what the sidecar renders to. Nothing outside the root is
opened, nothing of a file's content is kept, and no check depends on another's success.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from reenact.errors import SidecarError, SidecarVersionError, UsageError
from reenact.provenance.git import GitError, Repository
from reenact.provenance.hashing import decode
from reenact.provenance.root import find_root
from reenact.provenance.safe_paths import MAX_INPUT_BYTES, FileRefused, Refusal, read_beneath
from reenact.provenance.sidecar.block import BlockError, compare_block
from reenact.provenance.sidecar.sidecar import AnySidecar, Sidecar, VerifiableInput, parse_sidecar
from reenact.provenance.verify.history import check_commit, check_dirtiness, check_version, explain, find_change
from reenact.provenance.verify.inputs import Hashes, check_input
from reenact.provenance.verify.model import Check, Problem, ProblemKind, Report, Status, Verification
from reenact.provenance.verify.sources import CommitTree, WorkTree
from reenact.provenance.verify.targets import Target, expand, target_of

MAX_SIDECAR_BYTES = 16 << 20
MAX_MARKDOWN_BYTES = 16 << 20
_MAX_WARNINGS = 10


@dataclasses.dataclass(frozen=True)
class Subject:
    """A report whose run is looked at, with the ways to read what belongs to it."""

    sidecar: AnySidecar
    report: str
    near: Callable[[str, int], bytes]
    """A file beside the report, of at most so many bytes; FileRefused where it cannot or may not be read."""
    held: Callable[[str], bytes | None]
    """An input by its name, where it holds."""


RunChecker = Callable[[Subject], list[Check]]
"""What is to be said of the run behind a report."""


def verify_reports(
    paths: Iterable[str],
    *,
    at_commit: bool = False,
    root: Path | None = None,
    strict: bool = False,
    limit: int = MAX_INPUT_BYTES,
    progress: Callable[[int, int], None] | None = None,
    runs: RunChecker | None = None,
) -> Verification:
    """Verify every report that the paths stand for. `progress` is called with how many are done, of how many.

    `runs` looks at the run behind a report, as `reenact.evals.sealed.SealedRuns` does.
    """
    targets = expand(paths)
    done = []
    with Verifier(at_commit=at_commit, root=root, limit=limit, runs=runs) as verifier:
        for number, target in enumerate(targets, start=1):
            done.append(verifier.verify(target))
            if progress is not None:
                progress(number, len(targets))
    return Verification(tuple(done), strict)


class Verifier:
    """Verifies one report after the other, and keeps what they share: roots, git, hashes of equal inputs."""

    def __init__(
        self,
        *,
        at_commit: bool = False,
        root: Path | None = None,
        limit: int = MAX_INPUT_BYTES,
        runs: RunChecker | None = None,
    ) -> None:
        if root is not None and not root.is_dir():
            raise UsageError(f"--root {root}: no such folder")
        self.hashes = Hashes()
        self._at_commit = at_commit
        self._runs = runs
        self._root = None if root is None else Path(os.path.realpath(root))
        self._limit = limit
        self._roots: dict[Path, Path] = {}
        self._repositories: dict[Path, Repository | None] = {}
        self._without_git: dict[Path, str] = {}
        self._work_trees: dict[Path, WorkTree] = {}
        self._commit_trees: dict[tuple[Path, str], CommitTree] = {}

    def __enter__(self) -> Verifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for repository in self._repositories.values():
            if repository is not None:
                repository.close()

    def verify(self, target: Target | str) -> Report:
        """The verdict on one report. What is wrong with the report is in the result, never an exception."""
        if isinstance(target, str):
            target = target_of(target)
        root = self._root_of(target)
        try:
            sidecar = load_sidecar(target, root)
        except Unusable as unusable:
            return Report(target.report, target.sidecar, problem=unusable.problem)
        checks = _ignored(sidecar.warnings)
        inputs = self._check_inputs(sidecar, root)
        checks += inputs
        checks += self._check_history(sidecar, root)
        if self._runs is not None:

            def near(path: str, limit: int) -> bytes:
                return read_near(Path(path), root, limit)

            held = self._held(inputs, sidecar, root)
            checks += self._runs(Subject(sidecar, target.report, near, held))
        checks.append(check_markdown(target, root, sidecar))
        return Report(target.report, target.sidecar, _facts(sidecar), tuple(checks))

    def _root_of(self, target: Target) -> Path:
        if self._root is not None:
            return self._root
        folder = Path(target.sidecar).parent
        if folder not in self._roots:
            self._roots[folder] = find_root(Path(target.sidecar))
        return self._roots[folder]

    def _repository(self, root: Path) -> Repository | None:
        if root not in self._repositories:
            try:
                self._repositories[root] = Repository(root)
            except GitError as error:
                self._repositories[root] = None
                self._without_git[root] = f"git cannot be asked: {error}"
        return self._repositories[root]

    def _work_tree(self, root: Path) -> WorkTree:
        return self._work_trees.setdefault(root, WorkTree(root, self._limit))

    def _commit_tree(self, root: Path, commit: str | None) -> CommitTree | None:
        """The tree of a recorded commit, where git has it."""
        repository = self._repository(root)
        if commit is None or repository is None or not repository.has_commit(commit):
            return None
        return self._commit_trees.setdefault((root, commit), CommitTree(repository, commit, self._limit))

    def _check_inputs(self, sidecar: AnySidecar, root: Path) -> list[Check]:
        check = self._input_at_commit if self._at_commit else self._input_in_work_tree
        return [check(recorded, sidecar, root) for recorded in sidecar.verifiable_inputs]

    def _held(self, checks: list[Check], sidecar: AnySidecar, root: Path) -> Callable[[str], bytes | None]:
        source = self._commit_tree(root, sidecar.commit) if self._at_commit else self._work_tree(root)
        places = {check.field: check.found for check in checks if check.level == "ok"}

        def held(name: str) -> bytes | None:
            found = places.get(name)
            try:
                return None if found is None or source is None else source.read(tuple(found.split("/")))
            except FileRefused:
                return None

        return held

    def _input_in_work_tree(self, recorded: VerifiableInput, sidecar: AnySidecar, root: Path) -> Check:
        check = check_input(recorded, self._work_tree(root), root, self.hashes)
        if check.level == "ok":
            return check
        return explain(check, recorded, sidecar, self._repository(root), self.hashes)

    def _input_at_commit(self, recorded: VerifiableInput, sidecar: AnySidecar, root: Path) -> Check:
        """The input as of the recorded commit; with the later commit that changed it, when one did."""
        tree, repository = self._commit_tree(root, sidecar.commit), self._repository(root)
        if tree is None or repository is None:
            detail = "the recorded commit cannot be read here"
            return Check(recorded.name, Status.UNAVAILABLE, detail, recorded.path, expected=recorded.hash)
        check = check_input(recorded, tree, root, self.hashes)
        if check.level != "ok" or check.found is None:
            dirty = "the run had changes that were not committed" if sidecar.dirty else ""
            return dataclasses.replace(check, detail=check.detail or dirty)
        now = check_input(recorded, self._work_tree(root), root, self.hashes)
        if now.level == "ok":
            return check
        changed, detail = find_change(repository, check.found, recorded, tree.commit, self.hashes)
        detail = "holds at the commit; " + (detail or "changed later")
        return dataclasses.replace(check, changed_by=changed, detail=detail)

    def _check_history(self, sidecar: AnySidecar, root: Path) -> list[Check]:
        repository = self._repository(root)
        tree = self._commit_tree(root, sidecar.commit)
        checks = [check_commit(sidecar, repository, self._without_git.get(root, ""), needed=self._at_commit)]
        if checks[0].status is Status.OK:
            dirty = check_dirtiness(sidecar, tree, repository, self.hashes)
            checks += [check for check in (dirty, check_version(sidecar, tree)) if check is not None]
        return checks


class Unusable(Exception):
    """A report whose sidecar cannot be used."""

    def __init__(self, kind: ProblemKind, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(kind, message)


def load_sidecar(target: Target, root: Path) -> AnySidecar:
    """The sidecar of a target; unknown fields are ignored, and named in its `warnings`. Unusable when it is none."""
    try:
        text = decode(read_near(Path(target.sidecar), root, MAX_SIDECAR_BYTES))
    except FileRefused as refused:
        if refused.refusal is Refusal.MISSING:
            message = "no sidecar beside the report; run the command that wrote it again, or `reenact backfill`"
            raise Unusable("no sidecar", message) from None
        raise Unusable("refused", f"the sidecar is not read: {refused}") from None
    try:
        return parse_sidecar(text, unknown="ignore")
    except SidecarVersionError as error:
        raise Unusable("newer version", str(error)) from None
    except SidecarError as error:
        raise Unusable("invalid sidecar", str(error)) from None


def read_near(path: Path, root: Path, limit: int) -> bytes:
    """A file that the caller named: from the root where it lies below it, else from its own folder. A link in
    its place may not lead out of there."""
    folder = Path(os.path.realpath(path.parent))
    if folder.is_relative_to(root):
        return read_beneath(root, (*folder.relative_to(root).parts, path.name), limit)
    if not folder.is_dir():
        raise FileRefused(Refusal.MISSING, "no such file")
    return read_beneath(folder, (path.name,), limit)


def check_markdown(target: Target, root: Path, sidecar: AnySidecar) -> Check:
    """The block in the report against what its sidecar renders to. The sidecar is authoritative."""
    try:
        markdown = decode(read_near(Path(target.report), root, MAX_MARKDOWN_BYTES))
    except FileRefused as refused:
        if refused.refusal is Refusal.MISSING:
            return Check("markdown", Status.NOT_CHECKED, "the report itself is not here")
        return Check("markdown", Status.REFUSED, f"the report is not read: {refused}")
    try:
        differences = compare_block(markdown, sidecar)
    except BlockError as error:
        return Check("markdown", Status.DIFFERS, str(error))
    if differences is None:
        if isinstance(sidecar, Sidecar) and sidecar.backfilled:
            return Check("markdown", Status.NOT_CHECKED, "no block, as the sidecar was written later")
        return Check("markdown", Status.ABSENT, "the report shows no replay block")
    if not differences:
        return Check("markdown", Status.OK, "the block says what the sidecar says")
    named = ", ".join(difference.field for difference in differences[:5])
    more = f" and {len(differences) - 5} more" if len(differences) > 5 else ""
    return Check("markdown", Status.DIFFERS, f"the block does not say what the sidecar says: {named}{more}")


def _ignored(warnings: tuple[str, ...]) -> list[Check]:
    checks = [Check("sidecar", Status.IGNORED, warning) for warning in warnings[:_MAX_WARNINGS]]
    if len(warnings) > _MAX_WARNINGS:
        checks.append(
            Check("sidecar", Status.IGNORED, f"{len(warnings) - _MAX_WARNINGS} more unknown fields are ignored")
        )
    return checks


def _facts(sidecar: AnySidecar) -> dict[str, str]:
    facts = {"kind": sidecar.kind, "version": sidecar.version, "invoked_at": sidecar.invoked_at}
    if sidecar.commit:
        facts["commit"] = sidecar.commit + (" (dirty)" if sidecar.dirty else "")
    return facts
