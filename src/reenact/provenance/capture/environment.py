"""The environment that a capture records by itself: program, commit, whether the work tree was clean, machine."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from reenact.provenance.git import GitError, Repository, run_git
from reenact.provenance.manifests import MAX_MANIFEST_BYTES, read_manifest
from reenact.provenance.safe_paths import FileRefused, read_beneath

UNKNOWN: Final = "unknown"
_ARCHITECTURES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64", "i686": "ia32"}


class Manifest(NamedTuple):
    """A project's own name and version, as its manifest states them."""

    name: str
    version: str


class Checkout(NamedTuple):
    """The commit that is checked out and whether the work tree differs from it; both None outside of git.

    `problem` says why git could not be asked, where there is a work tree.
    """

    commit: str | None
    dirty: bool | None
    problem: str = ""


def manifests_of(root: Path) -> list[Manifest]:
    """Those of `package.json` and `pyproject.toml` in the root that state a name and a version."""
    found = []
    for file in ("package.json", "pyproject.toml"):
        try:
            table = read_manifest(file, read_beneath(root, (file,), MAX_MANIFEST_BYTES))
        except FileRefused:
            continue
        name, version = table.get("name"), table.get("version")
        if isinstance(name, str) and isinstance(version, str) and name and version:
            found.append(Manifest(name, version))
    return found


def checkout_of(root: Path, outputs: Iterable[Path] = ()) -> Checkout:
    """The state of the work tree now. Changes of `outputs`, which a run writes itself, do not make it dirty."""
    try:
        with Repository(root) as repository:
            commit = repository.head()
    except GitError as error:
        has_git = any((folder / ".git").exists() for folder in (root, *root.parents))
        return Checkout(None, None, f"git cannot be asked: {error}" if has_git else "")
    if commit is None:
        return Checkout(None, None)
    try:
        top = Path(run_git(root, "rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape").rstrip("\n"))
        listed = run_git(top, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    except GitError as error:
        return Checkout(commit, dirty=True, problem=f"git cannot tell whether the work tree is clean: {error}")
    own = {str(path) for path in outputs}
    changed = [entry[3:].decode("utf-8", "surrogateescape") for entry in listed.split(b"\0") if entry]
    return Checkout(commit, dirty=any(str(top / name) not in own for name in changed))


def platform_name() -> str:
    """`linux-x64`, `darwin-arm64`, …: the names that Node.js uses, since other tools' blocks have them."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{_ARCHITECTURES.get(machine, machine) or UNKNOWN}"


def runtime_name() -> str:
    """`cpython-3.12.4` and the like."""
    return f"{platform.python_implementation().lower()}-{platform.python_version()}"


def reenact_version() -> str:
    try:
        return metadata.version("reenact")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def command_line(root: Path, arguments: Sequence[str] | None = None) -> tuple[str, ...]:
    """The command of this process as it can be given again in another checkout: the interpreter by its name, and
    paths below the root relative to it."""
    given = list(sys.orig_argv if arguments is None else arguments)
    if not given:
        return ()
    return (Path(given[0]).name, *(_below(root, argument) for argument in given[1:]))


def _below(root: Path, argument: str) -> str:
    path = Path(argument)
    if path.is_absolute() and path != root and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return argument
