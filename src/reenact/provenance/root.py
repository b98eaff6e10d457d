"""Finding the root of a report's repository: beneath it its inputs may lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from reenact.provenance.safe_paths import FileRefused, read_beneath

FOREIGN_PACKAGE: Final = "@adastracomputing/ahd"
# The original looks in the folder of the report and in seven above it.
_FOREIGN_DEPTH: Final = 8
_MAX_MANIFEST_BYTES: Final = 1 << 20


def find_root(report: Path, *, cwd: Path | None = None) -> Path:
    """The folder that a report's recorded paths are relative to, with every symbolic link resolved.

    In this order: the nearest folder above the report whose `package.json` has the original tool's name; the
    nearest git work tree; the nearest folder with a `pyproject.toml`; the working directory. The report need
    not exist.
    """
    start = Path(os.path.realpath((cwd or Path.cwd()) / report.parent))
    folders = [start, *start.parents]
    for is_root in (_is_foreign_package, _is_work_tree, _is_python_project):
        for folder in folders:
            if is_root(folder):
                return folder
    return (cwd or Path.cwd()).resolve()


def find_foreign_root(report: str) -> Path:
    """The root as the original tool finds it: its own package up to seven folders above, else the working
    directory. The path is absolute, and its links are not resolved."""
    start = Path(os.path.abspath(report)).parent  # noqa: PTH100  # lexical, as the original's is
    for folder in [start, *start.parents][:_FOREIGN_DEPTH]:
        if _is_foreign_package(Path(os.path.realpath(folder))):
            return folder
    return Path.cwd()


def _is_foreign_package(folder: Path) -> bool:
    try:
        package = msgspec.json.decode(read_beneath(folder, ("package.json",), _MAX_MANIFEST_BYTES))
    except (FileRefused, ValueError, RecursionError):
        return False
    return isinstance(package, dict) and package.get("name") == FOREIGN_PACKAGE


def _is_work_tree(folder: Path) -> bool:
    return (folder / ".git").exists()


def _is_python_project(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file()
