"""What is no Python must be named in `pyproject.toml`, or an installed package would lack it."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path


def test_every_data_file_of_the_package_goes_into_the_wheel(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    files = [path for path in (root / "src" / "reenact").rglob("*") if path.is_file()]
    data = [path for path in files if path.suffix not in (".py", ".pyc")]
    assert {".md", ".sql"} <= {path.suffix for path in data}
    assert [path for path in data if not any(fnmatch(path.name, pattern) for pattern in patterns)] == []
