"""Sidecars for reports that were published without one, from their markdown and git's history.

By default the sidecars are byte for byte what the original's script writes, with what it loses: an empty brief, a
critique's brief, a brief that is no longer there, models listed flush left, a critique's conditions, and the commit
of a report that was edited after its run. `recover_lost` keeps these, or says that they are gone, and never records
a null for something that the report names.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from reenact.errors import HashingError, Undecidable, UsageError
from reenact.provenance.git import GitError, Repository
from reenact.provenance.hashing import decode, hash_raw_decoded, hash_structured
from reenact.provenance.root import find_root
from reenact.provenance.safe_paths import FileRefused, Refusal, components, is_absolute, read_beneath
from reenact.provenance.sidecar.backfill_header import Header, Title, read_conditions, read_header, read_models
from reenact.provenance.sidecar.paths import sidecar_path
from reenact.provenance.sidecar.shape import Findings, Issue
from reenact.provenance.sidecar.sidecar import V1_SHAPE
from reenact.provenance.yaml.javascript import JsonSyntaxError, parse_json, pretty

_MAX_MARKDOWN_BYTES: Final = 4 << 20
_NO_TITLE: Final = "header did not match the expected pattern (need # ahd <kind> · <token> · <runAt>)"
_UNTRACKED: Final = "no git commit found for the report; needs to be tracked first"
_TOKEN_SUFFIXES: Final = (".yml", ".yaml", ".json")


class Failure(NamedTuple):
    """A report without a sidecar, and why. The reason may hold foreign text."""

    report: str
    reason: str
    issues: list[Issue]


@dataclass
class Backfill:
    """What a backfill did. Paths are relative to the root."""

    dry_run: bool
    scanned: int = 0
    written: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return 1 if self.failed and not self.dry_run else 0


class CannotBackfill(Exception):
    """Why a report gets no sidecar; with the fields that are wrong, when its sidecar would not be valid."""

    def __init__(self, reason: str, issues: list[Issue] | None = None) -> None:
        super().__init__(reason)
        self.issues = issues or []


def backfill(folder: Path, *, dry_run: bool = False, recover_lost: bool = False) -> Backfill:
    """Write a sidecar beside each report below `folder` that has none. UsageError outside a git repository."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name the folder of reports with --root")
    start = Path(os.path.realpath(folder))
    root = find_root(start / "report.md")
    result = Backfill(dry_run)
    try:
        repository = Repository(root)
    except GitError as error:
        raise UsageError(f"{folder}: backfill reads inputs from git: {error}") from None
    with repository:
        for report in _reports(start):
            result.scanned += 1
            _backfill_one(report, repository, result, recover_lost=recover_lost)
    return result


def _reports(folder: Path) -> Iterator[Path]:
    """Markdown files below a folder, in the order of their names; links to folders are not entered."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != ".git":
                yield from _reports(Path(entry.path))
        elif entry.name.endswith(".md"):
            yield Path(entry.path)


def _backfill_one(report: Path, repository: Repository, result: Backfill, *, recover_lost: bool) -> None:
    relative = report.relative_to(repository.root).as_posix()
    target = sidecar_path(relative)
    place = repository.root / target
    try:
        if os.path.lexists(place):
            if recover_lost:
                _refuse_invalid(repository.root, target)
            result.skipped.append(relative)
            return
        text = _sidecar_text(relative, repository, recover_lost=recover_lost)
        if not result.dry_run:
            _write_new(place, text)
    except CannotBackfill as reason:
        result.failed.append(Failure(relative, str(reason), reason.issues))
        return
    result.written.append(target)


def _refuse_invalid(root: Path, target: str) -> None:
    """A file in the sidecar's place that is none would hide a report without provenance for ever."""
    findings = Findings()
    try:
        V1_SHAPE(parse_json(decode(read_beneath(root, components(target)))), (), findings)
    except (FileRefused, JsonSyntaxError) as error:
        raise CannotBackfill(f"the sidecar that is there cannot be read: {error}") from None
    if findings.issues:
        raise CannotBackfill("the sidecar that is there is not valid: remove it and backfill again")


def _write_new(place: Path, text: str) -> None:
    """The whole file or none, and never over another one."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=place.parent, prefix=".replay-", newline="\n", encoding="utf-8"
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)
            os.link(file.name, place)
    except OSError as error:
        raise CannotBackfill(f"cannot be written: {error.strerror}") from None


def _sidecar_text(relative: str, repository: Repository, *, recover_lost: bool) -> str:
    """The sidecar of a report. CannotBackfill with the reason when there can be none."""
    try:
        markdown = decode(read_beneath(repository.root, tuple(relative.split("/")), _MAX_MARKDOWN_BYTES))
    except FileRefused as refused:
        raise CannotBackfill(f"the report is not read: {refused}") from None
    header = read_header(markdown)
    if header.title is None:
        raise CannotBackfill(_NO_TITLE)
    commit = _commit_of(relative, header.title, repository, recover_lost=recover_lost)
    if recover_lost:
        markdown = _text_at(repository, commit, relative) or markdown
        header = read_header(markdown)
    builder = _Thorough(repository, commit, markdown) if recover_lost else _Original(repository, commit, markdown)
    return builder.text(header)


def _commit_of(relative: str, title: Title, repository: Repository, *, recover_lost: bool) -> str:
    """The last commit that touched the report; or, to recover, the one that brought the run it is about."""
    if not recover_lost:
        last = repository.last_commit_of(relative)
        if last is None:
            raise CannotBackfill(_UNTRACKED)
        return last.id
    found: str | None = None
    for commit in repository.history(relative):
        text = _text_at(repository, commit.id, relative)
        same = text is not None and read_header(text).title == title
        if found and not same:
            break
        found = commit.id if same else found
    if found is None:
        raise CannotBackfill("no commit holds the report with this title; commit it first")
    return found


def _text_at(repository: Repository, commit: str, path: str) -> str | None:
    """A file as of a commit, as text; None when it is not there."""
    try:
        return decode(repository.read(commit, path.removeprefix("./")))
    except FileRefused:
        return None


class _Original:
    """The sidecar as the original builds it."""

    def __init__(self, repository: Repository, commit: str, markdown: str) -> None:
        self._repository = repository
        self._commit = commit
        self._markdown = markdown

    def text(self, header: Header) -> str:
        title = header.title
        if title is None:
            raise CannotBackfill(_NO_TITLE)
        conditions = list(self._conditions(title))
        fields = {
            "schema_version": 1,
            "kind": title.kind,
            "ahd_version": self._version(),
            "ahd_commit": self._commit,
            "git_dirty": False,
            "node_version": "unknown",
            "platform": "unknown",
            "invoked_at": title.run_at,
            "argv": [],
            "token": self._token(title.token),
            "brief": self._brief(header, title),
            "sampling": {"n": header.samples, "temperature": None, "seed": None},
            "models": [
                {"id": name, "provider": provider, "provider_request_ids": []}
                for name, provider in self._models(header)
            ],
            "conditions": {"requested": conditions, "effective": conditions},
            "backfilled": True,
        }
        findings = Findings()
        V1_SHAPE(fields, (), findings)
        if findings.issues:
            raise CannotBackfill("built replay does not validate", findings.issues)
        return pretty(fields) + "\n"

    def _version(self) -> object:
        text = _text_at(self._repository, self._commit, "package.json")
        try:
            package = msgspec.json.decode(text) if text else {}
        except (ValueError, RecursionError):
            return "unknown"
        version = package.get("version") if isinstance(package, dict) else None
        return "unknown" if version is None else version

    def _token(self, name: str) -> dict[str, str]:
        path = f"tokens/{name}.yml"
        text = _text_at(self._repository, self._commit, path)
        if not text:
            raise CannotBackfill(f"token file {path} not present at commit {self._commit[:12]}")
        return self._token_entry(path, text)

    def _token_entry(self, path: str, text: str) -> dict[str, str]:
        try:
            return {"path": path, "hash": hash_structured(text)}
        except HashingError as error:
            place = f"{self._commit[:12]}:{path}"
            raise CannotBackfill(f"token at {place} did not parse as YAML: {error}") from None

    def _brief(self, header: Header, title: Title) -> dict[str, str] | None:
        if header.brief is None or title.kind == "critique":
            return None
        text = _text_at(self._repository, self._commit, header.brief)
        return self._brief_entry(header.brief, text) if text else None

    def _brief_entry(self, path: str, text: str) -> dict[str, str]:
        try:
            return {"path": path, "hash": hash_structured(text)}
        except Undecidable as error:
            place = f"{self._commit[:12]}:{path}"
            raise CannotBackfill(f"brief at {place} cannot be hashed with certainty: {error}") from None
        except HashingError:
            return {"path": path, "hash": hash_raw_decoded(text.encode())}

    def _models(self, header: Header) -> tuple[tuple[str, str], ...]:
        return header.models

    def _conditions(self, title: Title) -> tuple[str, ...]:
        return () if title.kind == "critique" else ("raw", "compiled")


class _Thorough(_Original):
    """The sidecar with what the original loses."""

    def _token(self, name: str) -> dict[str, str]:
        for suffix in _TOKEN_SUFFIXES:
            path = f"tokens/{name}{suffix}"
            text = _text_at(self._repository, self._commit, path)
            if text is not None:
                return self._token_entry(path, text)
        raise CannotBackfill(f"no token file tokens/{name}.yml at commit {self._commit[:12]}")

    def _brief(self, header: Header, _title: Title, /) -> dict[str, str] | None:  # a critique's counts too
        if header.brief is None:
            return None
        for path in self._places(header.brief):
            text = _text_at(self._repository, self._commit, path)
            if text is not None:
                return self._brief_entry(path, text)
        raise CannotBackfill(f"brief {header.brief} not present at commit {self._commit[:12]}")

    def _places(self, brief: str) -> list[str]:
        """The brief's path below the root; an absolute one by its tails, the longest first."""
        try:
            names = components(brief)
        except FileRefused as refused:
            raise CannotBackfill(f"brief {brief}: {refused}") from None
        if not names:
            raise CannotBackfill(f"brief {brief}: {Refusal.FOLDER.value}")
        last = len(names) if is_absolute(brief) else 1
        return ["/".join(names[start:]) for start in range(last)]

    def _models(self, header: Header) -> tuple[tuple[str, str], ...]:
        return read_models(self._markdown, flush_left=True) or header.models

    def _conditions(self, title: Title) -> tuple[str, ...]:
        return read_conditions(self._markdown) or super()._conditions(title)
