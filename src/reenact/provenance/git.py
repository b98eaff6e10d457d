"""Reading a repository through git: objects, never the work tree, and never the network.

Every answer is read as bytes or as NUL-separated fields; file names and commit subjects are foreign text, and
are escaped where they are shown. Names are passed after `--` or as `commit:path` with a checked commit id, so
that none is read as an option.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NamedTuple

from reenact.provenance.safe_paths import MAX_INPUT_BYTES, FileRefused, Refusal

_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TIMEOUT_S: Final = 120
_MAX_HISTORY: Final = 2000
MAX_OUTPUT_BYTES: Final = 64 << 20
"""Of one answer of git: the names of about a million files."""
_MAX_COMPLAINT: Final = 4096
# Set by git itself while a hook runs; they would point every command at one repository.
_LOCATION: Final = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_GRAFT_FILE",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "GIT_TRACE",
    }
)
# Replacement objects would change what a commit means; lazy fetches and hooks would leave this machine or run
# code.
_SETTINGS: Final = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_OPTIONS: Final = (
    "--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "-c", "log.showSignature=false", "-c", "color.ui=false", "-c", "submodule.recurse=false",
    "-c", "credential.helper=", "-c", "diff.external=", "-c", "protocol.allow=never",
)  # fmt: skip


class Commit(NamedTuple):
    """A commit of the history: its id, the day it was committed, and its subject, which is foreign text."""

    id: str
    day: str
    subject: str


class GitError(Exception):
    """Git is absent, refuses the repository or cannot answer. The message is one line of git's own, unescaped."""


def is_commit_id(text: str) -> bool:
    return _COMMIT_ID.fullmatch(text) is not None


def environment() -> dict[str, str]:
    """The environment for git: the caller's, without what points it at another repository."""
    return {name: value for name, value in os.environ.items() if name not in _LOCATION} | _SETTINGS


def run_git(folder: Path, *arguments: str, most: int = MAX_OUTPUT_BYTES) -> bytes:
    """The output of a git command run in `folder`. GitError when it fails, or says more than `most` bytes: a tree of
    a few hundred bytes can name billions of files."""
    program = shutil.which("git")
    if program is None:
        raise GitError("git is not installed")
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(  # noqa: S603  # arguments are ours; foreign ones follow `--`
                [program, *_OPTIONS, *arguments],
                cwd=folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
        except OSError as error:
            raise GitError(f"git {arguments[0]} did not answer: {type(error).__name__}") from None
        output = _read_until(process, most)
        complaints.seek(0)
        lines = complaints.read(_MAX_COMPLAINT).decode("utf-8", "replace").splitlines()
    if len(output) > most:
        raise GitError(f"git {arguments[0]} says more than {most} bytes")
    if process.returncode == -signal.SIGKILL:
        raise GitError(f"git {arguments[0]} did not answer within {_TIMEOUT_S} s")
    if process.returncode != 0:
        raise GitError(lines[0] if lines else f"git {arguments[0]} failed")
    return output


def _read_until(process: subprocess.Popen[bytes], most: int) -> bytes:
    """What it says, one byte more than `most` at the most; it has ended then."""
    limit = threading.Timer(_TIMEOUT_S, process.kill)
    limit.start()
    try:
        with process:
            assert process.stdout is not None
            output = process.stdout.read(most + 1)
            if len(output) > most:
                process.kill()
    finally:
        limit.cancel()
    return output


class Repository:
    """A git work tree, seen from the root that recorded paths are relative to. Close it: it keeps processes open."""

    def __init__(self, root: Path) -> None:
        """GitError when `root` is in no work tree. Every command runs in `root`, so that all ask one repository."""
        self.root = root
        self._prefix = os.fsdecode(run_git(root, "rev-parse", "--show-prefix").removesuffix(b"\n"))
        self._sizes: _Objects | None = None
        self._contents: _Objects | None = None
        self._files: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, bool] = {}

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for objects in (self._sizes, self._contents):
            if objects is not None:
                objects.close()
        self._sizes = self._contents = None

    def head(self) -> str | None:
        """The commit that is checked out; None before the first one."""
        try:
            return run_git(self.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
        except GitError:
            return None

    def has_commit(self, commit: str) -> bool:
        if not is_commit_id(commit):
            return False
        if commit not in self._known:
            self._known[commit] = self._size_of(f"{commit}^{{commit}}")[0] == "commit"
        return self._known[commit]

    def read(self, commit: str, path: str, limit: int = MAX_INPUT_BYTES) -> bytes:
        """A file as of a commit; links are followed inside that commit only. FileRefused as for a file on disk."""
        name = self._name(commit, path)
        if "\n" in name:
            return self._read_alone(name, limit)
        kind, size = self._size_of(name)
        if kind == "tree":
            raise FileRefused(Refusal.FOLDER, "a folder, not a file")
        if kind == "symlink":
            raise FileRefused(Refusal.OUTSIDE, "a symbolic link leads out of the repository")
        if kind != "blob":
            raise FileRefused(Refusal.MISSING, "no such file at that commit")
        if size > limit:
            raise FileRefused(Refusal.TOO_LARGE, f"larger than {limit} bytes")
        if self._contents is None:
            self._contents = _Objects(self.root, "--batch")
        return self._contents.content(name)

    def _name(self, commit: str, path: str) -> str:
        if not is_commit_id(commit):
            raise FileRefused(Refusal.MISSING, "not a commit id")
        return f"{commit}:{self._prefix}{path}"

    def _size_of(self, name: str) -> tuple[str, int]:
        if self._sizes is None:
            self._sizes = _Objects(self.root, "--batch-check")
        return self._sizes.header(name)

    def _read_alone(self, name: str, limit: int) -> bytes:
        try:
            size = int(run_git(self.root, "cat-file", "-s", name))
            if size > limit:
                raise FileRefused(Refusal.TOO_LARGE, f"larger than {limit} bytes")
            return run_git(self.root, "cat-file", "blob", name, most=limit)
        except GitError:
            raise FileRefused(Refusal.MISSING, "no such file at that commit") from None

    def files(self, commit: str) -> tuple[str, ...]:
        """The files below the root as of a commit, relative to the root."""
        if commit not in self._files:
            listed = run_git(self.root, "ls-tree", "-r", "-z", "--name-only", commit).split(b"\0")
            self._files[commit] = tuple(os.fsdecode(name) for name in listed if name)
        return self._files[commit]

    def history(self, path: str, since: str | None = None) -> list[Commit]:
        """The commits that touched a path below the root, newest first; with `since`, those after that commit."""
        span = ("HEAD",) if since is None else (f"{since}..HEAD",)
        return self._log(*span, "--", path)

    def last_commit_of(self, path: str) -> Commit | None:
        """The last commit that touched a path, whether or not the file is still there."""
        found = self._log("-n1", "HEAD", "--", path)
        return found[0] if found else None

    def deletion_of(self, path: str) -> Commit | None:
        """The last commit that deleted a path."""
        found = self._log("-n1", "--diff-filter=D", "HEAD", "--", path)
        return found[0] if found else None

    def _log(self, *arguments: str) -> list[Commit]:
        form = "--format=%H%x1f%cs%x1f%s"
        try:
            output = run_git(
                self.root, "log", "-z", f"-n{_MAX_HISTORY}", "--no-ext-diff", "--no-textconv", form, *arguments
            )
        except GitError:
            return []
        records = output.decode("utf-8", "replace").split("\0")
        return [Commit(*record.split("\x1f", 2)) for record in records if record.count("\x1f") >= 2]

    def add_worktree(self, place: Path, commit: str) -> Path:
        """Make a work tree for a commit at `place`, still without its files, and return where the root lies in it.

        Nothing of the repository runs: its filters would, as soon as a file is checked out.
        """
        if not is_commit_id(commit):
            raise GitError("not a commit id")
        run_git(self.root, "worktree", "add", "--quiet", "--no-checkout", "--detach", str(place), commit)
        return place / self._prefix

    def check_out(self, place: Path) -> None:
        """Write the files of a work tree. The filters that the repository's configuration names run; no hook does."""
        run_git(place, "reset", "--quiet", "--hard")

    def remove_worktree(self, place: Path) -> None:
        """Take a work tree away again, with all that is in it."""
        run_git(self.root, "worktree", "remove", "--force", str(place))

    def converts(self, path: str) -> bool:
        """Whether git stores the file in another form than it checks out (filters, encodings, keyword expansion)."""
        names = ("filter", "ident", "working-tree-encoding")
        try:
            output = run_git(self.root, "check-attr", "-z", *names, "--", path).split(b"\0")
        except GitError:
            return True
        return any(value not in (b"unspecified", b"unset") for value in output[2::3])

    def hides_changes(self, path: str) -> bool:
        """Whether the index says that changes of the file are not to be looked for."""
        try:
            output = run_git(self.root, "ls-files", "-v", "-z", "--", path)
        except GitError:
            return True
        return output[:1].islower() or output[:1] == b"S"


class _Objects:
    """A `git cat-file` process that answers one name after the other."""

    def __init__(self, folder: Path, mode: str) -> None:
        program = shutil.which("git")
        assert program is not None, "Repository has already run git"
        self._process = subprocess.Popen(  # noqa: S603  # arguments are ours
            [program, *_OPTIONS, "cat-file", mode, "--follow-symlinks"],
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def header(self, name: str) -> tuple[str, int]:
        """The type and size of an object; type `missing` when there is none, `symlink` for a link that leads out."""
        assert "\n" not in name
        ask, answer = self._pipes
        try:
            ask.write(os.fsencode(name) + b"\n")
            ask.flush()
            line = answer.readline()
        except OSError:
            return "missing", 0  # git gave up on a damaged repository
        for word in (b"symlink", b"dangling", b"loop", b"notdir"):
            if re.fullmatch(word + rb" [0-9]+\n", line):
                answer.read(int(line.split()[1]) + 1)
                return ("symlink" if word == b"symlink" else "missing"), 0
        fields = line.split()
        if len(fields) == 3 and fields[2].isdigit() and _COMMIT_ID.fullmatch(fields[0].decode("ascii", "replace")):
            return fields[1].decode(), int(fields[2])
        return "missing", 0

    def content(self, name: str) -> bytes:
        """The content of an object that is known to be there. FileRefused when git cannot give all of it."""
        kind, size = self.header(name)
        _, answer = self._pipes
        data = answer.read(size + 1) if kind != "missing" else b""
        if len(data) != size + 1:
            raise FileRefused(Refusal.UNREADABLE, "git cannot read it: the repository is damaged")
        return data[:size]

    def close(self) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()
