"""Resolving what a caller names: reports, sidecars, folders and globs, to the sidecars that they stand for."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from reenact.errors import UsageError
from reenact.provenance.safe_paths import FileRefused, read_beneath
from reenact.provenance.sidecar.block import INFO_STRINGS
from reenact.provenance.sidecar.paths import sidecar_path

SIDECAR_SUFFIX: Final = ".replay.json"
_NEVER_ENTERED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_MAX_MARKDOWN_BYTES: Final = 16 << 20
_OPENING = re.compile(
    rb"^ {0,3}(?:```|~~~)[`~]*[ \t]*(?:" + "|".join(INFO_STRINGS).encode() + rb")[ \t\r]*$", re.MULTILINE
)


class Target(NamedTuple):
    """One report to verify: its markdown, which need not exist, and its sidecar, as the caller would write them."""

    report: str
    sidecar: str


def expand(arguments: Iterable[str]) -> list[Target]:
    """The reports that the arguments stand for, each once, in order. UsageError when one stands for nothing."""
    found: dict[str, Target] = {}
    for argument in arguments:
        before = len(found)
        known = False
        for target in _targets(argument):
            key = os.path.realpath(target.sidecar)
            known |= key in found
            found.setdefault(key, target)
        if len(found) == before and not known:
            raise UsageError(
                f"{argument}: no report and no sidecar there; name a report, a sidecar, a folder or a glob"
            )
    return list(found.values())


def target_of(path: str) -> Target:
    """The target for the path of a report or of a sidecar."""
    if not path.endswith(SIDECAR_SUFFIX):
        return Target(path, sidecar_path(path))
    stem = path.removesuffix(SIDECAR_SUFFIX)
    markdown = stem + ".md"
    return Target(stem if Path(stem).is_file() and not Path(markdown).exists() else markdown, path)


def _targets(argument: str) -> Iterator[Target]:
    if Path(argument).is_dir():
        yield from _in_folder(argument)
    elif glob.has_magic(argument) and not Path(argument).exists():
        for match in sorted(glob.glob(argument, recursive=True)):  # noqa: PTH207  # relative and absolute alike
            if Path(match).is_dir():
                yield from _in_folder(match)
            elif _is_report(match):
                yield target_of(match)
    else:
        yield target_of(argument)


def _in_folder(folder: str) -> Iterator[Target]:
    """Every sidecar below a folder, and every report that shows a replay block but has no sidecar."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _NEVER_ENTERED)
        for file in sorted(files):
            path = os.path.join(here, file)  # noqa: PTH118  # keeps `./` as the caller wrote it
            if _is_report(path):
                yield target_of(path)


def _is_report(path: str) -> bool:
    """A sidecar, or markdown that has one or shows a replay block. Other markdown is no report."""
    if path.endswith(SIDECAR_SUFFIX):
        return True
    return path.endswith(".md") and (os.path.lexists(sidecar_path(path)) or _shows_block(Path(path)))


def _shows_block(report: Path) -> bool:
    try:
        text = read_beneath(report.parent.resolve(), (report.name,), _MAX_MARKDOWN_BYTES)
    except FileRefused:
        return False
    return _OPENING.search(text) is not None
