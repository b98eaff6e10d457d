"""Whether a path can lead somewhere in a value of a declared shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DEEPEST = 100


def leads_somewhere(schema: Mapping[str, Any], parts: Sequence[str]) -> bool:
    """False only where the declared shape rules the path out; what a schema leaves open may be there."""
    return _leads(schema, list(parts), schema, 0)


def _leads(schema: object, parts: list[str], root: Mapping[str, Any], depth: int) -> bool:
    if not parts or not isinstance(schema, Mapping) or depth > DEEPEST:
        return True
    if "$ref" in schema:
        return _leads(_definition(str(schema["$ref"]), root), parts, root, depth + 1)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return any(_leads(choice, parts, root, depth + 1) for choice in schema[several])
    kinds = schema.get("type")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds or ())
    if kinds and not kinds & {"object", "array"}:
        return False
    head, rest = parts[0], parts[1:]
    if "array" in kinds and head.isdigit():
        return _leads(schema.get("items"), rest, root, depth + 1)
    if kinds == {"array"}:
        return False
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return _leads(schema.get("additionalProperties"), rest, root, depth + 1)
    if head in properties:
        return _leads(properties[head], rest, root, depth + 1)
    more = schema.get("additionalProperties", False)
    return more is not False and _leads(more, rest, root, depth + 1)


def _definition(reference: str, root: Mapping[str, Any]) -> object:
    name = reference.rpartition("/")[2]
    return root.get("$defs", {}).get(name)
