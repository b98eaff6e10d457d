"""The YAML 1.2 core schema: what scalars and tags mean, as the original applies it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import unquote

from reenact.errors import Undecidable, Unparseable
from reenact.provenance.yaml.javascript import JsonScalar
from reenact.provenance.yaml.nodes import Mapping, Node, Scalar, Sequence, Style

YAML_TAGS: Final = "tag:yaml.org,2002:"
_NAMED_TAG = re.compile(r"(![0-9A-Za-z-]+!|!!|!)((?:[^!%]|%[2-7][0-9A-Fa-f])*)")
TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?"
    r"(?:[ \t]*(?:Z|[-+][012]?[0-9](?::[0-9]{2})?))?)?"
)

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_URL_SAFE: Final = str.maketrans("-_", "+/")

_NULL = re.compile(r"~|[Nn]ull|NULL|")
_TRUE = re.compile(r"[Tt]rue|TRUE")
_FALSE = re.compile(r"[Ff]alse|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)")
_EXPONENT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)")
# Everything that is no string in the core schema starts with one of these.
_TYPED_START: Final = frozenset("~nNtTfF+-.0123456789")


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that is no JSON scalar; `text` is the JSON that it prints as."""

    text: str


class NoMatch:
    """What a type says of a text that it does not know."""


NO_MATCH: Final = NoMatch()


def null(text: str) -> JsonScalar | NoMatch:
    return None if _NULL.fullmatch(text) else NO_MATCH


def boolean(text: str) -> JsonScalar | NoMatch:
    if _TRUE.fullmatch(text):
        return True
    return False if _FALSE.fullmatch(text) else NO_MATCH


def integer(text: str) -> JsonScalar | NoMatch:
    if _INTEGER.fullmatch(text):
        return float(text)
    if _OCTAL.fullmatch(text):
        return whole(int(text, 8))
    return whole(int(text, 16)) if _HEXADECIMAL.fullmatch(text) else NO_MATCH


def floating(text: str) -> JsonScalar | NoMatch:
    if _FRACTION.fullmatch(text) or _EXPONENT.fullmatch(text):
        return float(text)
    infinity = _INFINITY.fullmatch(text)
    if infinity:
        return float(infinity.group(1) + "inf")
    return float("nan") if _NAN.fullmatch(text) else NO_MATCH


def whole(value: int) -> float:
    """The nearest double; infinity beyond them all."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


CORE_TYPES: Final[dict[str, Callable[[str], JsonScalar | NoMatch]]] = {
    "null": null,
    "bool": boolean,
    "int": integer,
    "float": floating,
}


class Schema:
    """Resolves tags by a document's handles, and scalars by their tags or, where they are plain, by their text."""

    types: ClassVar[dict[str, Callable[[str], JsonScalar | NoMatch]]] = CORE_TYPES

    def __init__(self, handles: dict[str, str], line_of: Callable[[int], int]) -> None:
        self._handles = handles
        self._line_of = line_of

    def tag(self, node: Scalar | Sequence | Mapping) -> str | None:
        """The node's tag in full: None without one, `!` for the non-specific one."""
        written = node.properties.tag
        if written is None or written == "!":
            return written
        if written.startswith("!<"):
            if len(written) < 5:
                raise Undecidable("a verbatim tag is too short to mean anything", line=self._line(node))
            return written[2:-1]
        match = _NAMED_TAG.fullmatch(written)
        if not match:
            raise Undecidable("a tag has more than one handle, or a malformed escape", line=self._line(node))
        handle, suffix = match.group(1), unquote(match.group(2))
        prefix = self._handles.get(handle, {"!": "!", "!!": YAML_TAGS}.get(handle))
        if not suffix or prefix is None:
            raise Unparseable("a tag has no suffix, or a handle that no directive declares", line=self._line(node))
        return prefix + suffix

    def scalar(self, node: Scalar) -> JsonScalar | Opaque:
        """The value of a scalar."""
        tag = self.tag(node)
        if tag is None:
            plain = node.style in (Style.PLAIN, Style.EMPTY, Style.ABSENT)
            return self.plain(node.text) if plain else node.text
        name = tag.removeprefix(YAML_TAGS) if tag.startswith(YAML_TAGS) else ""
        if name in self.types:
            value = self.types[name](node.text)
            return node.text if isinstance(value, NoMatch) else value
        if name == "timestamp":
            return self._timestamp(node)
        if name == "binary":
            return self._binary(node)
        if name in ("merge", "set", "omap", "pairs"):
            raise Undecidable(f"a scalar has the tag !!{name}", line=self._line(node))
        return node.text

    def is_merge(self, key: Scalar) -> bool:
        """Whether this key merges maps into the one in which it stands."""
        return self.tag(key) == YAML_TAGS + "merge"

    def plain(self, text: str) -> JsonScalar | Opaque:
        """The value of an untagged plain scalar."""
        if text and text[0] not in _TYPED_START:
            return text
        for resolve in self.types.values():
            value = resolve(text)
            if not isinstance(value, NoMatch):
                return value
        return text

    def _timestamp(self, node: Scalar) -> Opaque | str:
        if TIMESTAMP.fullmatch(node.text):
            return Opaque("{}")
        if re.match(r"[0-9]{4}-", node.text):
            raise Undecidable("a !!timestamp has a form that our reader does not decide", line=self._line(node))
        raise Unparseable("a !!timestamp is no date", line=self._line(node))

    def _binary(self, node: Scalar) -> Opaque:
        """An array of bytes, which prints as an object. Characters that are no base64 are passed over."""
        digits = _NOT_BASE64.sub("", node.text.partition("=")[0].translate(_URL_SAFE))
        digits = digits[: len(digits) - (len(digits) % 4 == 1)]
        data = base64.b64decode(digits + "=" * (-len(digits) % 4))
        return Opaque("{" + ",".join(f'"{index}":{byte}' for index, byte in enumerate(data)) + "}")

    def _line(self, node: Node) -> int:
        return self._line_of(node.position)
