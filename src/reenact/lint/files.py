"""From paths to syntax trees. Files are read, never imported and never run."""

from __future__ import annotations

import ast
import io
import os
import stat
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from reenact.lint.findings import Finding, Place, Severity, Unreadable

MAX_BYTES: Final = 4 * 1024 * 1024
_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "__pypackages__"})


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's text and tree; `problem` says why there is no tree."""

    path: Path
    shown: str
    text: str
    tree: ast.Module | None
    problem: Finding | None = None


def find_files(paths: Sequence[str], exclude: Sequence[str] = ()) -> Iterator[tuple[Path, str] | Unreadable]:
    """Every Python file under the paths once, in a fixed order, with the name to show for it.

    A path that names a file is taken whatever it is called. In folders, hidden ones, virtual environments and
    caches are left out, and links to folders are not followed.
    """
    seen: set[Path] = set()
    for given in paths:
        for found in _under(Path(given), exclude):
            if isinstance(found, Unreadable):
                yield found
                continue
            real = found.resolve()
            if real not in seen:
                seen.add(real)
                yield found, found.as_posix()


def _under(path: Path, exclude: Sequence[str]) -> Iterator[Path | Unreadable]:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            if stat.S_ISREG(mode):
                yield path
            else:
                yield Unreadable(path.as_posix(), "it is neither a file nor a folder")
            return
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        yield Unreadable(path.as_posix(), _reason(error))
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        inner = path / entry.name
        if any(fnmatch(inner.as_posix(), pattern) or fnmatch(entry.name, pattern) for pattern in exclude):
            continue
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _SKIPPED_FOLDERS:
                yield from _under(inner, exclude)
        elif entry.name.endswith(".py") and entry.is_file():
            yield inner


def read_source(path: Path, shown: str) -> SourceFile | Unreadable:
    """The file's text and tree. What is no Python, or too much of it, comes back as a problem with its line."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return Unreadable(shown, _reason(error))
    if len(data) > MAX_BYTES:
        problem = _problem(shown, 1, "RN005", f"the file is larger than {MAX_BYTES // 2**20} MiB and was not analysed")
        return SourceFile(path, shown, "", None, problem)
    return parse_source(data, path, shown)


def parse_source(data: bytes, path: Path, shown: str) -> SourceFile:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return SourceFile(path, shown, "", None, _problem(shown, 1, "RN001", f"the file cannot be decoded: {error}"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sample's invalid escape is not ours to print
            tree = ast.parse(text)
    except SyntaxError as error:
        line = error.lineno if error.lineno and error.lineno > 0 else 1
        return SourceFile(path, shown, text, None, _problem(shown, line, "RN001", f"syntax error: {error.msg}"))
    except ValueError as error:
        return SourceFile(path, shown, text, None, _problem(shown, 1, "RN001", f"the file is no Python: {error}"))
    except (RecursionError, MemoryError):
        nested = "the code is nested too deeply and was not analysed"
        return SourceFile(path, shown, text, None, _problem(shown, 1, "RN005", nested))
    return SourceFile(path, shown, text, tree)


def _problem(shown: str, line: int, rule: str, message: str) -> Finding:
    return Finding(Place(shown, line, 1, line), rule, message, Severity.ERROR)


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
