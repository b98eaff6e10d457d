"""How often a JSON Schema applies itself to one and the same value, found before any value is held against it.

A validator that names every mistake tries each way to each part of a schema: references that lead to the same part in
several ways double the ways with every step, and so does a recursive schema with every level of the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from reenact.values.bounds import place_in

MOST_WAYS: Final = 100_000
"""In which one value may be held against the parts of a schema; one with more is refused."""
MOST_EXPLAINED: Final = 1000
"""Up to so many every mistake in a value is named with its place."""
ONE: Final = ("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames", "items",
              "contains", "unevaluatedItems")  # fmt: skip
EACH_IN_LIST: Final = ("allOf", "anyOf", "oneOf")
EACH_BY_NAME: Final = ("dependentSchemas", "patternProperties")
OF_DIFFERENT_VALUES: Final = ("properties", "prefixItems")
REFERENCES: Final = ("$ref", "$dynamicRef")

Schema = dict[str, Any]
Group = list[Schema]
"""Schemas of which one value meets one only: those of properties with different names."""


@dataclass(frozen=True)
class Work:
    """Of a schema: in how many ways one value meets a part of it, not counting the ways through recursion."""

    ways: int
    grows: bool
    """With each level of the value: it is recursive, and may come back in more than one way."""

    @property
    def is_explained(self) -> bool:
        return not self.grows and self.ways <= MOST_EXPLAINED


def work(schema: Schema) -> Work:
    """Each part is looked at once, in a loop: a chain of references may be longer than the stack."""
    places = Places(schema)
    ways: dict[int, int] = {}
    open_: set[int] = set()
    recursive = branches = False
    stack: list[tuple[Schema, list[Group] | None]] = [(schema, None)]
    while stack:
        node, groups = stack.pop()
        if groups is not None:
            found = 1 + sum(max((ways.get(id(each), 0) for each in group), default=0) for group in groups)
            ways[id(node)] = min(found, MOST_WAYS + 1)
            open_.discard(id(node))
        elif id(node) in open_:
            recursive = True
        elif id(node) not in ways:
            groups = list(groups_of(node, places))
            branches = branches or sum(any(map(places.refers, group)) for group in groups) > 1
            open_.add(id(node))
            stack.append((node, groups))
            stack += [(each, None) for group in groups for each in group]
    return Work(ways[id(schema)], recursive and branches)


def groups_of(node: Schema, places: Places) -> Iterator[Group]:
    for name in REFERENCES:
        target = places.target(node, node.get(name))
        if target is not None:
            yield [target]
    for name in ONE:
        yield from ([each] for each in schemas([node.get(name)]))
    for name in (*EACH_IN_LIST, *EACH_BY_NAME):
        yield from ([each] for each in schemas(node.get(name)))
    for name in OF_DIFFERENT_VALUES:
        group = list(schemas(node.get(name)))
        if group:
            yield group


def schemas(value: object) -> Iterator[Schema]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def children(node: Schema) -> Iterator[Schema]:
    for name in ONE:
        yield from schemas([node.get(name)])
    for name in (*EACH_IN_LIST, *EACH_BY_NAME, *OF_DIFFERENT_VALUES, "$defs", "definitions"):
        yield from schemas(node.get(name))


@dataclass
class Places:
    """Where the references of a schema lead."""

    root: Schema
    _bases: dict[int, str] = field(default_factory=dict)
    _named: dict[str, Schema] = field(default_factory=dict)
    _referring: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._named[""] = self.root
        self._enter(self.root, "")

    def _enter(self, node: Schema, base: str) -> bool:
        """Whether something in it is a reference. Only where schemas stand: a default is none, whatever it holds."""
        if isinstance(node.get("$id"), str):
            base = urljoin(base, node["$id"])
            self._named.setdefault(urldefrag(base).url, node)
        self._bases[id(node)] = base
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(name), str):
                self._named.setdefault(f"{urldefrag(base).url}#{node[name]}", node)
        inside = [self._enter(each, base) for each in children(node)]
        self._referring[id(node)] = any(inside) or any(name in node for name in REFERENCES)
        return self._referring[id(node)]

    def refers(self, node: Schema) -> bool:
        return self._referring.get(id(node), True)

    def target(self, node: Schema, reference: object) -> Schema | None:
        if not isinstance(reference, str):
            return None
        url, fragment = urldefrag(urljoin(self._bases.get(id(node), ""), reference))
        if fragment and not fragment.startswith("/"):
            return self._named.get(f"{url}#{unquote(fragment)}")
        found: object = self._named.get(url)
        for part in fragment.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and (place := place_in(found, name)) is not None:
                found = found[place]
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None
