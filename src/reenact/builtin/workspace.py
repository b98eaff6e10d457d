"""The workspace: files beneath one folder, and nothing outside it: no `..`, no absolute path, no symbolic link."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from reenact.errors import SkillError
from reenact.policy.ceiling import is_within
from reenact.skills.context import SkillContext
from reenact.skills.services import FOLDERS_SERVICE, STORE_FILES_SERVICE, Folders, StoreFiles

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WAY = _FOLDER | getattr(os, "O_PATH", 0)
"""On the way to a folder, which need not be readable itself."""

_MEANINGS = {
    errno.ENOENT: ("ERR_VALIDATION_FAILED", "path: no such file or folder"),
    errno.EISDIR: ("ERR_VALIDATION_FAILED", "path: this is a folder"),
    errno.EEXIST: ("ERR_VALIDATION_FAILED", "path: the file exists already, with other content"),
    errno.ENAMETOOLONG: ("ERR_VALIDATION_FAILED", "path: the file system does not take a name this long"),
    errno.ELOOP: ("ERR_PERMISSION_DENIED", "path: it leads through a link"),
    errno.ENOTDIR: ("ERR_PERMISSION_DENIED", "path: it leads through a link or a file"),
}


def workspace_of(ctx: SkillContext, skill: str) -> Path:
    """The folder that the plan names in `context.workspace`; nothing is assumed where it names none."""
    named = ctx.context.get("workspace")
    if not isinstance(named, str) or not named:
        raise SkillError.of(
            "ERR_SKILL_DISABLED", f"{skill} needs a folder to work in; set context.workspace in the plan"
        )
    return real_folder(ctx, "context.workspace", named)


def real_folder(ctx: SkillContext, place: str, named: str) -> Path:
    """Where it really is, within what the host gives: a command may have put a link where a folder was."""
    folder = Path(named).resolve()
    own: Folders | None = ctx.services.get(FOLDERS_SERVICE)
    refuse_outside(place, folder, None if own is None else own.workspaces)
    if not folder.is_dir():
        raise SkillError.of("ERR_VALIDATION_FAILED", f"{place}: there is no such folder")
    return folder


def refuse_outside(place: str, path: Path, folders: tuple[str, ...] | None) -> None:
    if not is_within(str(path), folders):
        raise SkillError.of("ERR_PERMISSION_DENIED", f"{place}: it leads out of what the host's policy gives")


def parts_of(path: str) -> list[str]:
    """The names on the way from the workspace to the file."""
    pure = PurePosixPath(path)
    if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise SkillError.of(
            "ERR_PERMISSION_DENIED", "path: it must lead into the workspace, without .. and not absolute"
        )
    return list(pure.parts)


def refuse_store_files(ctx: SkillContext, root: Path, names: list[str]) -> None:
    """What holds the record and its keys is nobody's to read or change, by whatever name it is called."""
    own: StoreFiles | None = ctx.services.get(STORE_FILES_SERVICE)
    if own is not None and any(own.has(root.joinpath(*names[:depth])) for depth in range(1, len(names) + 1)):
        raise _store_file()


def refuse_open_store_file(ctx: SkillContext, descriptor: int) -> None:
    """The same of what was opened: its name may have been turned to another file after the look at it."""
    own: StoreFiles | None = ctx.services.get(STORE_FILES_SERVICE)
    if own is not None and own.has_open(descriptor):
        raise _store_file()


def _store_file() -> SkillError:
    return SkillError.of("ERR_PERMISSION_DENIED", "path: this is a file of the store that the run is recorded in")


@contextmanager
def open_folder(root: Path, names: list[str], *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder `names` beneath `root`.

    Each name is opened relative to the one before it and never through a link, those of `root` too, so that nobody who
    swaps a folder for a link meanwhile can lead the way outside.
    """
    above = len(root.parts) - 1
    here = os.open(root.anchor, _WAY if above else _FOLDER)
    try:
        for depth, name in enumerate((*root.parts[1:], *names), start=1):
            if create and depth > above:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=here)
            deeper = os.open(name, _WAY if depth < above else _FOLDER, dir_fd=here)
            os.close(here)
            here = deeper
        yield here
    finally:
        os.close(here)


@contextmanager
def file_errors() -> Iterator[None]:
    """What the file system says, as what the caller did. Lack of permission and of room speak for themselves."""
    try:
        yield
    except OSError as error:
        if error.errno not in _MEANINGS:
            raise
        raise SkillError.of(*_MEANINGS[error.errno]) from error
