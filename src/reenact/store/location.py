"""Which store is meant: `--store`, `REENACT_STORE`, or the user's data directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reenact.errors import UsageError

MEMORY = "sqlite://:memory:"


def default_path() -> Path:
    """In the data directory; UsageError for a user who has none, as in many containers."""
    return data_directory() / "reenact" / "reenact.db"


def config_directory() -> Path | None:
    """Where a user's own settings lie; None for a user without a home."""
    try:
        if sys.platform == "darwin" or os.name == "nt":
            return data_directory()
        named = os.environ.get("XDG_CONFIG_HOME", "")
        return Path(named) if Path(named).is_absolute() else Path.home() / ".config"
    except (RuntimeError, UsageError):
        return None


def data_directory() -> Path:
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support"
        if os.name == "nt":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        named = os.environ.get("XDG_DATA_HOME", "")
        # A relative path is to be ignored, says the specification: it would be another store in every folder.
        return Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError:
        raise UsageError("you have no home directory; name a store with --store or REENACT_STORE") from None


def sqlite_path(url: str | None) -> str:
    """The file that a store's URL names; `:memory:` for the one that is never written.

    `sqlite:///PATH` (so `sqlite:////var/lib/agents.db` is absolute), or a plain path. A shell expands `~/` only where a
    word begins with it, so it is expanded here. A link is followed: whatever name a store is opened by, its key and its
    turnstile are the files beside it.
    """
    path = named_path(url)
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114 - where it may not look, it is none


def named_path(url: str | None) -> str:
    given = url or os.environ.get("REENACT_STORE")
    if not given:
        return str(default_path())
    if given in (MEMORY, "sqlite:///:memory:", ":memory:"):
        return ":memory:"
    if given.startswith("sqlite:///"):
        path = given.removeprefix("sqlite:///")
        if path:
            return at_home(path)
    elif "://" not in given:
        return at_home(given)
    raise UsageError(f"store {given!r} is not understood; write sqlite:///PATH")


def at_home(path: str) -> str:
    """`~/` at the beginning is the user's home directory."""
    if not path.startswith("~/"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        raise UsageError(f"you have no home directory for {path}; name the whole path") from None
