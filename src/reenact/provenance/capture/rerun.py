"""Running a report's recorded command again, in a work tree at its recorded commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from reenact.errors import StoreUnavailable, UsageError
from reenact.provenance.git import GitError, Repository
from reenact.provenance.root import find_root
from reenact.provenance.safe_paths import FileRefused, beneath, components, is_absolute
from reenact.provenance.sidecar.render import shell_quote
from reenact.provenance.sidecar.sidecar import AnySidecar
from reenact.provenance.verify.report_escape import printable
from reenact.provenance.verify.targets import target_of
from reenact.provenance.verify.verify import Unusable, load_sidecar


@dataclass(frozen=True)
class Recorded:
    """A run that can be made again: its command, its commit, and the root that its paths are relative to."""

    sidecar: AnySidecar
    root: Path
    commit: str
    argv: tuple[str, ...]

    @property
    def warnings(self) -> list[str]:
        """What a new run may lack, in our words."""
        if not self.sidecar.dirty:
            return []
        return ["the recorded run had uncommitted changes: the work tree holds only what was committed"]


def load_recorded(report: str, root: Path | None = None) -> Recorded:
    """What a report's sidecar recorded. UsageError when there is no command or no commit to run it at."""
    target = target_of(report)
    top = find_root(Path(target.sidecar)) if root is None else Path(os.path.realpath(root))
    try:
        sidecar = load_sidecar(target, top)
    except Unusable as unusable:
        raise UsageError(f"{printable(target.sidecar)}: {unusable}") from None
    if not sidecar.argv:
        raise UsageError(f"{printable(target.sidecar)} records no command: it was backfilled, or written without one")
    if not sidecar.commit:
        raise UsageError(f"{printable(target.sidecar)} records no commit: there is no state to run the command at")
    if any("\0" in argument for argument in sidecar.argv):
        raise UsageError(f"{printable(target.sidecar)}: its command holds a NUL, which no program can be given")
    return Recorded(sidecar, top, sidecar.commit, sidecar.argv)


class Checkout:
    """A work tree at a run's commit, empty until `check_out`. It is removed on exit unless `keep` was set."""

    def __init__(self, recorded: Recorded, into: Path | None = None) -> None:
        """UsageError when git does not have the commit, or `into` is there already."""
        if into is not None and os.path.lexists(into):
            raise UsageError(f"{into}: something is there already; name a folder that does not exist")
        try:
            self._repository = Repository(recorded.root)
        except GitError as error:
            raise UsageError(f"rerun needs the git repository of the report: {printable(str(error))}") from None
        if not self._repository.has_commit(recorded.commit):
            self._repository.close()
            shown = printable(recorded.commit)[:80]
            raise UsageError(f"commit {shown} is not in this repository; `git fetch --unshallow` may bring it")
        self._commit = recorded.commit
        self._own = Path(tempfile.mkdtemp(prefix="reenact-rerun-")) if into is None else None
        self.place = self._own / "tree" if self._own else Path(os.path.realpath(into or ""))
        self.keep = False
        self.root = self.place

    def __enter__(self) -> Checkout:
        try:
            self.root = self._repository.add_worktree(self.place, self._commit)
        except GitError as error:
            self._clean()
            raise StoreUnavailable(f"git cannot make a work tree: {printable(str(error))}") from None
        return self

    def check_out(self) -> None:
        """Write the files. The repository's own filters run now, so this is for after the user agreed."""
        try:
            self._repository.check_out(self.place)
        except GitError as error:
            raise StoreUnavailable(f"git cannot check the commit out: {printable(str(error))}") from None

    def localized(self, recorded: Recorded) -> list[str]:
        """The command as it can run here: absolute paths that the commit has, under whatever root they were recorded,
        become those of the checkout, and a program that is not at its recorded place is looked up by its name."""
        there = {name for file in self._repository.files(self._commit) for name in (file, *_folders(file))}
        arguments = [_localized(argument, recorded.root, self.root, there) for argument in recorded.argv]
        program = arguments[0]
        if is_absolute(program) and not (os.access(program, os.X_OK) or Path(program).is_relative_to(self.root)):
            arguments[0] = shutil.which(components(program)[-1]) or program
        return arguments

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.keep:
            self._repository.close()
            return
        try:
            self._repository.remove_worktree(self.place)
        except GitError:
            shutil.rmtree(self.place, ignore_errors=True)
        self._clean()

    def _clean(self) -> None:
        self._repository.close()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)


def _folders(file: str) -> list[str]:
    names = file.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


def _localized(argument: str, root: Path, checkout: Path, there: set[str]) -> str:
    if not is_absolute(argument):
        return argument
    try:
        below = beneath(root, argument)
        names = components(argument)
    except FileRefused:
        return argument
    tails = [below] if below else [names[start:] for start in range(len(names))]
    if below is None and Path(argument).exists():
        return argument
    for tail in tails:
        if tail and "/".join(tail) in there:
            return str(checkout.joinpath(*tail))
    return argument


def shown_command(arguments: list[str] | tuple[str, ...]) -> str:
    """The command for a person to judge: on one line, quoted for a shell, nothing cut and nothing invisible."""
    return " ".join(_shown(argument) for argument in arguments)


def _shown(argument: str) -> str:
    uncut = len(argument) * 2 + 1
    if printable(argument, uncut) == argument:
        return shell_quote(argument)
    return "$'" + printable(argument.replace("\\", "\\\\").replace("'", "\\'"), uncut) + "'"


def run_recorded(arguments: list[str], checkout: Path, *, output: IO[str] | None = None) -> int:
    """Run the command in the checkout, with this terminal, and return its exit code. `output` takes its stdout."""
    try:
        done = subprocess.run(arguments, cwd=checkout, stdout=output, check=False)  # noqa: S603  # the user agreed
    except OSError as error:
        raise UsageError(f"{_shown(arguments[0])}: {error.strerror}") from None
    return done.returncode
