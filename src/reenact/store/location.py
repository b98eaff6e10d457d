"""Which store is meant: `--store`, `REENACT_STORE`, or the user's data directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reenact.errors import UsageError

MEMORY = "sqlite://:memory:"


def default_path() -> Path:
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "reenact" / "reenact.db"


def sqlite_path(url: str | None) -> str:
    """The file that a store's URL names; `:memory:` for the one that is never written.

    `sqlite:///PATH` (so `sqlite:////var/lib/agents.db` is absolute), or a plain path.
    """
    given = url or os.environ.get("REENACT_STORE")
    if not given:
        return str(default_path())
    if given in (MEMORY, "sqlite:///:memory:", ":memory:"):
        return ":memory:"
    if given.startswith("sqlite:///"):
        path = given.removeprefix("sqlite:///")
        if path:
            return path
    elif "://" not in given:
        return given
    raise UsageError(f"store {given!r} is not understood; write sqlite:///PATH")
