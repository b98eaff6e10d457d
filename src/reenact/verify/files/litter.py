"""What file managers leave lying in folders and zips: told as not part of the evidence."""

from __future__ import annotations

from typing import Final

_NAMES: Final = frozenset(
    {
        ".ds_store", ".localized", ".directory", ".appledouble", ".spotlight-v100", ".trashes", ".fseventsd",
        ".temporaryitems", ".apdisk", "__macosx", "icon\r", "thumbs.db", "ehthumbs.db", "desktop.ini",
    }
)  # fmt: skip


def is_litter(name: str) -> bool:
    """By its own name, or that of a folder that it lies in; `._NAME` is what a Mac keeps beside NAME elsewhere."""
    return any(part.lower() in _NAMES or part.startswith("._") for part in name.split("/"))
