"""Patterns of a JSON Schema that take more than linear time: those that look ahead or back, or at what they have taken.

A tool's schema comes from others, and so do the texts that are held against it, while everything else waits. All other
patterns are linear, and take texts of any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import jsonschema_rs

from reenact.skills.schema.work import REFERENCES, Places, Schema, children

LONGEST: Final = 4_096
"""Characters of a text, or of a property's name, that is held against such a pattern. A longer one does not fit."""
IN_TIME: Final = {"maxLength": LONGEST}


def is_linear(pattern: object) -> bool:
    """Whether the engine that never goes back takes it; also where no engine does, which is told elsewhere."""
    if not isinstance(pattern, str) or _compiles({"pattern": pattern}):
        return True
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern})
    except ValueError:
        return True
    return False


def _compiles(schema: Schema) -> bool:
    options = jsonschema_rs.RegexOptions()
    try:
        jsonschema_rs.Draft202012Validator(schema, retriever=refuse_remote, pattern_options=options)
    except (ValueError, jsonschema_rs.ReferencingError):
        return False
    return True


def refuse_remote(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri}, and remote references are never fetched")


class Bounded:
    """A schema with each such pattern beside the bound of what is held against it; as it was given where it has none.

    ValueError, or ReferencingError, where it is no schema, or where it is not found what a pattern is held against.
    """

    def __init__(self, given: Schema) -> None:
        self.schema = given
        self.bounds_names = False
        """Whether property names are held against one: then no name of a value may be longer."""
        if _compiles(given):
            return
        jsonschema_rs.Draft202012Validator(given, retriever=refuse_remote)
        self.schema, rest = deepcopy(given), deepcopy(given)
        for node in _nodes(self.schema):
            if not is_linear(node.get("pattern")):
                check = {"if": IN_TIME, "then": {"pattern": node.pop("pattern")}, "else": IN_TIME}
                node["allOf"] = [*node.get("allOf", ()), check]
        for node in _nodes(rest):
            if not is_linear(node.get("pattern")):
                del node["pattern"]
            by_name = node.get("patternProperties", {})
            for pattern in [each for each in by_name if not is_linear(each)]:
                self.bounds_names = True
                del by_name[pattern]
        if not _compiles(rest):
            raise ValueError("a pattern that looks ahead or back stands where nothing says what is held against it")

    def long_names(self, value: object) -> Iterator[tuple[str | int, ...]]:
        """The places of values with a property whose name is too long."""
        waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)] if self.bounds_names else []
        while waiting:
            path, found = waiting.pop()
            if isinstance(found, dict):
                if any(len(name) > LONGEST for name in found):
                    yield path
                else:
                    waiting += [((*path, name), item) for name, item in found.items()]
            elif isinstance(found, list):
                waiting += [((*path, index), item) for index, item in enumerate(found)]


def _nodes(root: Schema) -> list[Schema]:
    """Every part that is a schema, or that a reference leads to; as they stand before anything is changed."""
    places, found, waiting = Places(root), dict[int, Schema](), [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += children(node)
            waiting += [to for name in REFERENCES if (to := places.target(node, node.get(name))) is not None]
    return list(found.values())
