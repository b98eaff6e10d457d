"""`package.json` and `pyproject.toml` of whoever's project: what they say of themselves."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.values.bounds import parse_toml

MAX_MANIFEST_BYTES: Final = 1 << 20


def read_manifest(file: str, data: bytes) -> dict[str, object]:
    """The table with name and version; empty where the file cannot be read, or is larger than manifests are."""
    try:
        decoded = msgspec.json.decode(data) if file.endswith(".json") else _toml(data)
    except (ValueError, RecursionError):
        return {}
    table = decoded.get("project") if file.endswith(".toml") and isinstance(decoded, dict) else decoded
    return table if isinstance(table, dict) and len(data) <= MAX_MANIFEST_BYTES else {}


def _toml(data: bytes) -> object:
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError
    return parse_toml(data)
