"""Where inputs are read from: the work tree as it is, or the repository as of a commit."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Final, Protocol

from reenact.provenance.git import Repository
from reenact.provenance.safe_paths import read_beneath

Names = tuple[str, ...]

_NEVER_SEARCHED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_MAX_SEARCHED: Final = 200_000
# Reports of one commit share their inputs: small files of a commit are read once.
_MAX_KEPT: Final = 64
_MAX_KEPT_BYTES: Final = 1 << 18


class Source(Protocol):
    """A tree of files below one root."""

    def read(self, names: Names) -> bytes:
        """The content of a file. FileRefused when it cannot or may not be read."""
        ...

    def named(self, name: str) -> list[Names]:
        """Every file with this name, wherever it lies, in a fixed order."""
        ...


class WorkTree:
    """The files on disk below `root`."""

    def __init__(self, root: Path, limit: int) -> None:
        self.root = root
        self._limit = limit
        self._index: dict[str, list[Names]] | None = None

    def read(self, names: Names) -> bytes:
        return read_beneath(self.root, names, self._limit)

    def named(self, name: str) -> list[Names]:
        if self._index is None:
            self._index = self._build_index()
        return self._index.get(name, [])

    def _build_index(self) -> dict[str, list[Names]]:
        index: dict[str, list[Names]] = defaultdict(list)
        seen = 0
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(set(folders) - _NEVER_SEARCHED)
            above = Path(folder).relative_to(self.root).parts
            for file in sorted(files):
                index[file].append((*above, file))
            seen += len(files)
            if seen > _MAX_SEARCHED:
                break
        return index


class CommitTree:
    """The files of one commit below the repository's root."""

    def __init__(self, repository: Repository, commit: str, limit: int) -> None:
        self.commit = commit
        self._repository = repository
        self._limit = limit
        self._index: dict[str, list[Names]] | None = None
        self._kept: dict[Names, bytes] = {}

    def read(self, names: Names) -> bytes:
        if names not in self._kept:
            data = self._repository.read(self.commit, "/".join(names), self._limit)
            if len(data) > _MAX_KEPT_BYTES or len(self._kept) >= _MAX_KEPT:
                return data
            self._kept[names] = data
        return self._kept[names]

    def named(self, name: str) -> list[Names]:
        if self._index is None:
            self._index = defaultdict(list)
            for path in self._repository.files(self.commit):
                parts = tuple(path.split("/"))
                self._index[parts[-1]].append(parts)
        return self._index.get(name, [])
