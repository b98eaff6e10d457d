"""From paths to syntax trees. Files are read, never imported and never run."""

from __future__ import annotations

import ast
import io
import os
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from reenact.lint.findings import Finding, Unreadable

MAX_BYTES: Final = 4 * 1024 * 1024
_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "__pypackages__"})


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's text and tree, or the problem that says why there is none."""

    shown: str
    text: str
    tree: ast.Module | Finding


def find_files(paths: Sequence[str], exclude: Sequence[str] = ()) -> list[Path | Unreadable]:
    """Every Python file under the paths once, in a fixed order. What names a file is taken whatever it is called."""
    once: dict[Path | Unreadable, Path | Unreadable] = {}
    for given in paths:
        for found in _under(Path(given), exclude):
            once.setdefault(found.resolve() if isinstance(found, Path) else found, found)
    return list(once.values())


def _under(path: Path, exclude: Sequence[str]) -> Iterator[Path | Unreadable]:
    """Without hidden folders, virtual environments and caches; links to folders are not followed."""
    try:
        path.stat()
        entries = sorted(os.scandir(path), key=lambda entry: entry.name) if path.is_dir() else None
    except (OSError, ValueError) as error:
        yield Unreadable(path.as_posix(), _reason(error))
        return
    if entries is None:
        yield path if path.is_file() else Unreadable(path.as_posix(), "it is neither a file nor a folder")
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


def read_source(path: Path) -> SourceFile | Unreadable:
    """The file's text and tree. What is no Python, or too much of it, comes back as a problem with its line."""
    shown = path.as_posix()
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return Unreadable(shown, _reason(error))
    if len(data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 2**20} MiB and was not analysed"
        return SourceFile(shown, "", Finding.about_line(shown, 1, "RN005", message))
    text = ""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sample's invalid escape is not ours to print
            return SourceFile(shown, text, ast.parse(text))
    except SyntaxError as error:
        problem = Finding.about_line(shown, max(1, error.lineno or 1), "RN001", f"syntax error: {error.msg}")
    except (ValueError, LookupError) as error:  # bytes that are no text among them
        problem = Finding.about_line(shown, 1, "RN001", f"the file is no Python: {error}")
    except (RecursionError, MemoryError):
        problem = Finding.about_line(shown, 1, "RN005", "the code is nested too deeply and was not analysed")
    return SourceFile(shown, text, problem)


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
