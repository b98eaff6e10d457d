"""The JSON text of the value that a YAML document holds."""

from __future__ import annotations

from reenact.errors import Undecidable
from reenact.provenance import javascript


def canonical(text: str) -> tuple[str, list[str]]:
    """Compact JSON with sorted keys as JavaScript prints it, and a warning for each part left out."""
    try:
        value = javascript.parse_json(text)
    except javascript.JsonSyntaxError:
        raise Undecidable("the reader for YAML is not there yet") from None
    return _print(value), []


def _print(value: javascript.Json) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{javascript.quote(k)}:{_print(value[k])}" for k in javascript.sorted_keys(value))
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_print, value)) + "]"
    return javascript.scalar_text(value)
