"""The YAML 1.1 schema, under `%YAML 1.1`: yes and no, octal and sexagesimal numbers, dates, merge keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from reenact.errors import Undecidable
from reenact.provenance.yaml.javascript import JsonScalar
from reenact.provenance.yaml.nodes import Scalar, Style
from reenact.provenance.yaml.schema import (
    NO_MATCH,
    TIMESTAMP,
    YAML_TAGS,
    NoMatch,
    Opaque,
    Schema,
    floating,
    null,
    whole,
)

_TRUE = re.compile(r"[Yy]|[Yy]es|YES|[Tt]rue|TRUE|[Oo]n|ON")
_FALSE = re.compile(r"[Nn]|[Nn]o|NO|[Ff]alse|FALSE|[Oo]ff|OFF")
_INTEGERS = (
    (re.compile(r"[-+]?0b[01_]+"), 2, 2),
    (re.compile(r"[-+]?0[0-7_]+"), 8, 1),
    (re.compile(r"[-+]?[0-9][0-9_]*"), 10, 0),
    (re.compile(r"[-+]?0x[0-9a-fA-F_]+"), 16, 2),
)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*)?(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?")
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+")
_SIXTIES_FRACTION = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*")


def _boolean(text: str) -> JsonScalar | NoMatch:
    if _TRUE.fullmatch(text):
        return True
    return False if _FALSE.fullmatch(text) else NO_MATCH


def _integer(text: str) -> JsonScalar | NoMatch:
    for pattern, base, prefix in _INTEGERS:
        if pattern.fullmatch(text):
            sign = -1 if text[0] == "-" else 1
            digits = text.lstrip("+-")[prefix:].replace("_", "")
            if not digits:
                return float("nan")
            return sign * (float(digits) if base == 10 else whole(int(digits, base)))
    return _sixties(text) if _SIXTIES.fullmatch(text) else NO_MATCH


def _floating(text: str) -> JsonScalar | NoMatch:
    if _SIXTIES_FRACTION.fullmatch(text):
        return _sixties(text)
    if _FLOAT.fullmatch(text) and ("." in text or "e" in text.lower()):
        try:
            return float(text.replace("_", ""))
        except ValueError:
            return float("nan")
    return floating(text)


def _sixties(text: str) -> float:
    """A number of base 60, added up the way that JavaScript does it."""
    value = 0.0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        value = value * 60 + float(part)
    return -value if text[0] == "-" else value


class Schema11(Schema):
    types: ClassVar[dict[str, Callable[[str], JsonScalar | NoMatch]]] = {
        "null": null,
        "bool": _boolean,
        "int": _integer,
        "float": _floating,
    }

    def plain(self, text: str) -> JsonScalar | Opaque:
        for resolve in self.types.values():
            value = resolve(text)
            if not isinstance(value, NoMatch):
                return value
        return Opaque("{}") if TIMESTAMP.fullmatch(text) else text

    def _timestamp(self, node: Scalar) -> Opaque | str:
        return Opaque("{}") if TIMESTAMP.fullmatch(node.text) else node.text

    def is_merge(self, key: Scalar) -> bool:
        if key.text == "<<" and key.style is Style.PLAIN:
            if key.properties.tag is not None and self.tag(key) != YAML_TAGS + "merge":
                raise Undecidable("a merge key has a tag", line=self._line(key))
            return True
        return super().is_merge(key)
