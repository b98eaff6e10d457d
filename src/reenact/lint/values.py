"""What is known of a value: what it is, which forbidden fields it was made from, what stands in it. Immutable."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from typing import Final, NamedTuple

EACH: Final = "*"  # the key of an element when nobody knows which
ERROR_TEXT: Final = "an error's text"
MAX_SOURCES: Final = 8
MAX_PARTS: Final = 20
MAX_DEPTH: Final = 2

Names = ChainMap[str, "Value"]  # the names of a scope, or of a branch in it, over those around it


class Kind(Enum):
    """What a value is, as far as that matters for a decision."""

    UNKNOWN = "unknown"
    CONSTANT = "a constant"
    OUTCOME = "an outcome, or an object inside one"
    OWN = "an object of a class of this file that is no outcome"
    OTHER = "something of another known type that is no outcome"
    SESSION = "a session, whose calls return outcomes"
    ERROR = "an exception"
    SET = "a set"
    DICT = "a dict"
    LIST = "a list or tuple"
    SHUFFLED = "a list whose order may differ between two runs; its name is the rule that says so"
    NAMED = "a function or class of this file, or anything of another one"
    LAMBDA = "a lambda; its element is what it gives"
    GETTER = "a function that reads the fields in its name"


class Source(NamedTuple):
    """A forbidden field, or an error's text, that was read. `sure`: from what is known to be an outcome."""

    line: int
    name: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of one value. `parts` are what its known keys and indices hold."""

    kind: Kind = Kind.UNKNOWN
    name: str = ""  # of what is named, the class of an object, or as its kind says
    sources: frozenset[Source] = frozenset()
    parts: Mapping[str, Value] = field(default_factory=dict)

    @staticmethod
    def of(sources: Iterable[Source]) -> Value:
        """Something made from these sources, of which nothing else is known."""
        return UNKNOWN.plus(frozenset(sources))

    @staticmethod
    def row(items: Iterable[Value]) -> Value:
        """A list or tuple of which each place is known."""
        return Value(Kind.LIST, parts={str(index): item for index, item in enumerate(items)})

    @staticmethod
    def many(items: Iterable[Value]) -> Value:
        """A list of which only its elements are known, not their places."""
        return Value(Kind.LIST, parts={EACH: Value.either(items)})

    @staticmethod
    def sequence(items: Iterable[Value], origins: Iterable[Value]) -> Value:
        """A list of such items, made from these: in an order that may differ, if that of one of them may."""
        made = Value.many(items)
        for one in origins:
            if one.kind in (Kind.SET, Kind.SHUFFLED):
                return replace(made, kind=Kind.SHUFFLED, name=one.name or "RN206")
        return made

    @staticmethod
    def either(values: Iterable[Value]) -> Value:
        """What holds for a value that is one of these."""
        return reduce(_join, [*values] or [UNKNOWN])

    def within(self) -> frozenset[Source]:
        """The sources of the value and of all that is known to stand in it."""
        return self.sources.union(*(part.within() for part in self.parts.values()))

    def part(self, key: str) -> Value:
        """What stands under a key. Of a forbidden field every part is forbidden."""
        return (self.parts.get(key) or self.parts.get(EACH, UNKNOWN)).plus(self.sources)

    def element(self) -> Value:
        """Some element, when nobody knows which."""
        return Value.either(self.parts.values()) if self.parts else Value.of(self.sources)

    def plus(self, sources: frozenset[Source]) -> Value:
        """The value, made from these as well; what is read first is enough to report, and bounds the work."""
        together = self.sources | sources
        return replace(self, sources=frozenset(sorted(together)[:MAX_SOURCES])) if sources else self

    def declared(self, type_: Value) -> Value:
        """The value after an annotation said what it is; what is seen of it weighs more."""
        if self.kind not in (Kind.UNKNOWN, Kind.CONSTANT):
            return self
        return replace(self, kind=type_.kind, name=type_.name, parts=self.parts or type_.parts)

    def holding(self, key: str, value: Value) -> Value:
        """The value after something was stored in it; of very many parts the first are known."""
        if key == EACH and EACH in self.parts:
            value = _join(self.parts[EACH], value)
        elif key not in self.parts and len(self.parts) >= MAX_PARTS:
            return self
        return replace(self, parts={**self.parts, key: value})

    def shallow(self, depth: int = MAX_DEPTH) -> Value:
        """The value as a name holds it: a bound on the work with structures that are built to be deep."""
        if not self.parts:
            return self
        if depth == 0:
            return replace(self, parts={}).plus(self.within())
        return replace(self, parts={key: part.shallow(depth - 1) for key, part in self.parts.items()})


UNKNOWN: Final = Value()
CONSTANT: Final = Value(Kind.CONSTANT)
OUTCOME: Final = Value(Kind.OUTCOME)


def _join(first: Value, second: Value) -> Value:
    """What holds for a value that is one of the two. A constant beside something else is a starting value."""
    if second in (first, CONSTANT):
        return first
    if first == CONSTANT:
        return second
    parts = [*{**first.parts, **second.parts}.items()][:MAX_PARTS]
    joined = Value(parts={key: _join(first.parts.get(key, part), part) for key, part in parts})
    if (first.kind, first.name) == (second.kind, second.name):
        joined = replace(joined, kind=first.kind, name=first.name)
    return joined.plus(first.sources | second.sources)


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a chain of names, else nothing. `List[int]` counts as `List`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    return ".".join([node.id, *parts]) if isinstance(node, ast.Name) else ""
