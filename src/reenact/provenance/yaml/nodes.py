"""YAML syntax nodes, with their tags, anchors and places: what a text says before it means anything."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from reenact.errors import Undecidable

Result = TypeVar("Result")

# A function that calls others by yielding them. Deep nesting then costs no Python stack.
Steps = Generator[Any, Any, Result]

# Two steps for each level of nesting. The original's own limit is its stack, at 780 to 940 levels.
_MAX_STEPS = 1300


class Style(Enum):
    PLAIN = "plain"
    SINGLE = "single-quoted"
    DOUBLE = "double-quoted"
    LITERAL = "literal"
    FOLDED = "folded"
    EMPTY = "empty"
    ABSENT = "absent"  # the value of a key in a flow map that has no colon


@dataclass(slots=True)
class Properties:
    """A node's tag, as it is written, and its anchor."""

    tag: str | None = None
    anchor: str | None = None

    def __bool__(self) -> bool:
        return self.tag is not None or self.anchor is not None


@dataclass(slots=True, eq=False)
class Scalar:
    text: str
    style: Style
    position: int
    properties: Properties


@dataclass(slots=True, eq=False)
class Sequence:
    items: list[Node]
    flow: bool
    position: int
    properties: Properties
    end: int = -1


@dataclass(slots=True, eq=False)
class Mapping:
    pairs: list[tuple[Node, Node]]
    flow: bool
    position: int
    properties: Properties
    end: int = -1


@dataclass(slots=True, eq=False)
class Alias:
    name: str
    position: int


Node = Scalar | Sequence | Mapping | Alias


def run(steps: Steps[Result]) -> Result:
    """What the function returns, with each function that it yields run in its place."""
    stack: list[Steps[Any]] = [steps]
    value: Any = None
    while stack:
        try:
            called = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            if len(stack) >= _MAX_STEPS:
                raise Undecidable(f"collections are nested more than {_MAX_STEPS // 2} levels deep")
            stack.append(called)
            value = None
    result: Result = value
    return result
