"""`package.json` and `pyproject.toml` of whoever's project: what they say of themselves."""

from __future__ import annotations

import tomllib
from typing import Final

import msgspec

MAX_MANIFEST_BYTES: Final = 1 << 20
MAX_KEY_PARTS: Final = 200
"""Python's TOML reader takes the square of the parts of a dotted key."""


def read_manifest(file: str, data: bytes) -> dict[str, object]:
    """The table with name and version; empty where the file cannot be read, or is larger than manifests are."""
    try:
        decoded = msgspec.json.decode(data) if file.endswith(".json") else _toml(data)
    except (ValueError, RecursionError):
        return {}
    table = decoded.get("project") if file.endswith(".toml") and isinstance(decoded, dict) else decoded
    return table if isinstance(table, dict) and len(data) <= MAX_MANIFEST_BYTES else {}


def _toml(data: bytes) -> object:
    if len(data) > MAX_MANIFEST_BYTES or any(part.count(b".") > MAX_KEY_PARTS for part in _keys(data)):
        raise ValueError
    return tomllib.loads(data.decode())


def _keys(data: bytes) -> list[bytes]:
    """Wherever a key may stand, it ends with a line or at an equals sign."""
    return data.replace(b"=", b"\n").split(b"\n")
