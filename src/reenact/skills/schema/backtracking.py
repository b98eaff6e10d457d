"""Patterns of a JSON Schema that take more than linear time: those that look ahead or back, or at what they have taken.

A tool's schema comes from others, and so do the texts that are held against it, while everything else waits. One that
begins by looking ahead is taken apart; all others are held against texts of a length, and against so much in all, that
they cannot take long. How often one goes back is counted too: what depends on the text alone is decided alike wherever
it is decided. Patterns that do none of this are linear, and take texts of any length.
"""

from __future__ import annotations

import threading
from copy import deepcopy
from typing import Any, Final, NamedTuple

import jsonschema_rs

from reenact.skills.schema.lookahead import apart, repeats_once
from reenact.skills.schema.work import REFERENCES, Places, Schema, children

KEYWORD: Final = "x-reenact-goes-back"
MOST_WORK: Final = 1 << 27
"""For one value: eight texts of the greatest length, or two thousand of a sixteenth of it."""


class Bound(NamedTuple):
    """What such a pattern is held against: characters of a text, and how often it may go back in one."""

    longest: int
    back: int
    each: int

    def work(self, text: str) -> int:
        return self.each * (len(text) + 1) ** 2


LONGEST: Final = 4_096
ONE_REPEAT: Final = Bound(LONGEST, 10_000, 1)
SEVERAL: Final = Bound(256, 2_000, LONGEST**2 // 256**2)
"""Whose repeats multiply: a text of 4,096 characters took seconds, and another pattern would take days."""


def bound_of(pattern: str) -> Bound:
    return ONE_REPEAT if repeats_once(pattern) else SEVERAL


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
    """A schema in which each such pattern is taken apart, or held by us; as it was given where it has none.

    ValueError, or ReferencingError, where it is no schema, or where it is not found what a pattern is held against.
    """

    def __init__(self, given: Schema) -> None:
        self.schema = given
        self.names: Bound | None = None
        """Of all names of properties, where such a pattern says which are meant."""
        self._left = threading.local()
        if _compiles(given):
            self.is_needed = False
            return
        self.is_needed = True
        jsonschema_rs.Draft202012Validator(given, retriever=refuse_remote)
        self.schema, rest = deepcopy(given), deepcopy(given)
        for node in _nodes(self.schema):
            if not is_linear(node.get("pattern")):
                _replace(node, node.pop("pattern"))
        for node in _nodes(rest):
            if not is_linear(node.get("pattern")):
                del node["pattern"]
            by_name = node.get("patternProperties", {})
            for pattern in [each for each in by_name if not is_linear(each)]:
                self.names = SEVERAL if self.names is SEVERAL else bound_of(pattern)
                del by_name[pattern]
        if not _compiles(rest):
            raise ValueError("a pattern that looks ahead or back stands where nothing says what is held against it")

    def validator(self, schema: Schema, mask: str | None = None) -> jsonschema_rs.Draft202012Validator:
        """For this schema, or one that it is a part of."""
        if not self.is_needed:
            return jsonschema_rs.Draft202012Validator(schema, retriever=refuse_remote, mask=mask)
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=(self.names or ONE_REPEAT).back)
        return jsonschema_rs.Draft202012Validator(
            schema,
            retriever=refuse_remote,
            mask=mask,
            pattern_options=options,
            keywords={KEYWORD: self._held},  # type: ignore[dict-item]
        )

    def _held(self, _: Schema, pattern: object, __: object) -> Held:
        return Held(pattern if isinstance(pattern, str) else "", self._left)

    def begin(self, value: object) -> tuple[str | int, ...] | None:
        """Before a value is held against the schema: the place of a name that is too long, or of all, if too many."""
        self._left.work = MOST_WORK
        if self.names is None:
            return None
        waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
        while waiting:
            path, found = waiting.pop()
            if isinstance(found, dict):
                self._left.work -= sum(map(self.names.work, found))
                if self._left.work < 0 or any(len(name) > self.names.longest for name in found):
                    return path
                waiting += [((*path, name), item) for name, item in found.items()]
            elif isinstance(found, list):
                waiting += [((*path, index), item) for index, item in enumerate(found)]
        return None


class Held:
    """One such pattern, which the validator asks about each text; `left` is what a value has left, in this thread."""

    def __init__(self, pattern: str, left: threading.local) -> None:
        self._pattern, self._left, self._bound = pattern, left, bound_of(pattern)
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=self._bound.back)
        self._fits = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options).is_valid

    def validate(self, value: object) -> None:
        if not isinstance(value, str):
            return
        if len(value) > self._bound.longest:
            raise ValueError(f"the value is longer than {self._bound.longest} characters")
        self._left.work -= self._bound.work(value)
        if self._left.work < 0:
            raise ValueError("there is more to be held against a pattern that looks ahead or back than may be")
        if not self._fits(value):
            raise ValueError(f"the value does not match {self._pattern}")


def _replace(node: Schema, pattern: str) -> None:
    parts = apart(pattern)
    if parts and all(_compiles({"pattern": part}) for part, _ in parts):
        texts: list[Schema] = [{"type": "string", "pattern": part} for part, matches in parts if not matches]
        parted: list[Schema] = [{"pattern": part} for part, matches in parts if matches]
        node["allOf"] = [*node.get("allOf", ()), *parted, *({"not": each} for each in texts)]
    else:
        node[KEYWORD] = pattern


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
