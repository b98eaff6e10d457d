"""Redaction: what is a secret in a value, by the name of its field, by its shape, or because it was handed out.

Pure: the same value and rules give the same places. `{"$secret": NAME}` is a reference and `{"$sealed": TEXT}` is
encrypted already: neither is touched. Most values hold nothing that could be taken for a secret, and a quick look at
their canonical bytes and field names shows it (`SecretRules.passes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from reenact.contracts.references import SCALARS, is_encrypted, is_secret
from reenact.errors import UsageError
from reenact.policy.secrets import decoding, patterns, runs
from reenact.policy.secrets.decoding import LONG_WORD, ODD, WORDS, Needles, is_marked
from reenact.policy.secrets.parts import SHORTEST_KNOWN, parts_of
from reenact.policy.secrets.patterns import (
    GIVEN,
    NAME_OF_ONE,
    NAMED,
    PIECE,
    RARE,
    SUSPECT,
    is_secret_alone,
    name_kind,
    pause,
    plain,
    search,
    secret_spans,
)
from reenact.policy.secrets.runs import cased, forms, spellings
from reenact.values.canonical import canonicalize

REDACTED: Final = "[redacted]"
SHORTEST_WHOLE: Final = 4
"""A text that is nothing but a secret, or stands in a field that is named like one, is one from this length on."""

PLAIN_TEXT: Final = re.compile(r"[ !#-\[\]-~]*+")
"""What JSON writes as it is."""
CONTAINERS: Final = (dict, list, tuple)
EQUALS: Final = ord("=")
BACKSLASH: Final = ord("\\")
"""As numbers: bytes are asked for a number twenty times as fast as for other bytes."""
PATTERNS: Final = (*patterns.PATTERNS, *decoding.PATTERNS, *runs.PATTERNS, PLAIN_TEXT)
"""Every pattern that redaction puts to foreign text."""
JSON_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
TYPE_KEYWORDS: Final = frozenset(
    {
        "type", "anyOf", "title", "description", "format", "default", "minLength", "maxLength", "minimum", "maximum",
    }
)  # fmt: skip
"""What JSON Schema says about a parameter without quoting a value of it."""
MOST_SHAPES: Final = 1024
MOST_KEPT: Final = 1 << 20
"""Characters of texts whose search is remembered."""
LARGEST_SHAPE: Final = 64

Replace = Callable[[object], object]
"""Given a secret (a text, or the whole value of a secret field), what stands in its place."""


class SecretRules:
    """Which values are secret. `fields` are names, or JSON pointers from the top of a value."""

    def __init__(self, known: Iterable[str] = (), fields: Iterable[str] = ()) -> None:
        known, fields = list(known), list(fields)
        self._names = frozenset(plain(field) for field in fields if not field.startswith("/"))
        self._pointers = frozenset(field for field in fields if field.startswith("/"))
        parts = frozenset(part for secret in known for part in parts_of(secret))
        self._whole = parts | {secret for secret in known if len(secret) >= SHORTEST_WHOLE}
        written = {spelling for part in parts for spelling in spellings(part)}
        known_texts = {form for text in written for form in forms(text)} | {
            text for part in parts for text in cased(part)
        }
        known_bytes = {text_bytes(text) for text in self._whole | known_texts}
        self._known_bytes = tuple(form for form in sorted(known_bytes) if not is_marked(form))
        """What a quick look has to look for; all else is marked."""
        self._needles = Needles(parts) if parts else None
        self._judged: dict[tuple[str, ...], bool] = {}
        self._searched, self._kept = dict[str, str](), 0
        """What was left of the texts that were searched last: each is asked about several times on its way."""

    def passes(self, value: object, content: bytes) -> bool:
        """Whether a quick look shows that nothing in `value`, whose canonical bytes are `content`, can be a secret.

        It may be wrong in one direction only: what passes, `apply` gives back untouched; what does not may still turn
        out to be harmless.
        """
        if len(content) > PIECE:
            return self._passes_long(value, content)
        if self._pointers or (RARE.search(content) is not None and SUSPECT.search(content) is not None):
            return False
        if self._whole and (
            BACKSLASH in content
            or LONG_WORD in content.translate(WORDS)
            or ODD.search(content) is not None
            or any(known in content for known in self._known_bytes)
        ):
            return False
        may_be_given = EQUALS in content or BACKSLASH in content or content.count(b":") != content.count(b'":')
        if may_be_given and GIVEN.search(content) is not None and NAMED.search(content) is not None:
            return False
        return type(value) is str or not self._has_secret_name(value)

    def _passes_long(self, value: object, content: bytes) -> bool:
        """The same, piece by piece."""
        if self._pointers or search(SUSPECT, content) or search(NAMED, content):
            return False
        for known in self._known_bytes:
            pause()
            if known in content:
                return False
        if self._whole and (b"\\" in content or LONG_WORD in content.translate(WORDS) or search(ODD, content)):
            return False
        return type(value) is str or not self._has_secret_name(value)

    def passes_text(self, text: str) -> bool:
        """The same for a text alone."""
        return self.passes(text, text.encode() if PLAIN_TEXT.fullmatch(text) is not None else text_bytes(text))

    def _has_secret_name(self, value: object) -> bool:
        if isinstance(value, dict):
            names = tuple(value)
            is_secret = self._judged.get(names)
            if is_secret or (is_secret is None and self._judge(names)):
                return True
            value = value.values()
        elif not isinstance(value, list | tuple):
            return False
        if SCALARS.issuperset(map(type, value)):
            return False
        return any(isinstance(item, CONTAINERS) and self._has_secret_name(item) for item in value)

    def _judge(self, names: tuple[str, ...]) -> bool:
        """The same names come with every step: they are looked at once."""
        found = any(self._kind(name) for name in names)
        if len(self._judged) < MOST_SHAPES and len(names) <= LARGEST_SHAPE:
            self._judged[names] = found
        return found

    def apply(self, value: object, replace: Replace, path: str = "", *, whole: bool = False) -> object:
        """The value with every secret replaced; the very same object where there is none.

        `whole` hands `replace` all of a text that holds a secret, and all of an object that has one among its names, so
        that nothing is lost.
        """
        if isinstance(value, str):
            return self.apply_text(value, replace, whole=whole)
        if isinstance(value, dict):
            return self._apply_dict(value, replace, path, whole=whole)
        if isinstance(value, list | tuple):
            if self._is_spelt(value):
                return replace(value)
            items = [self.apply(item, replace, f"{path}/{index}", whole=whole) for index, item in enumerate(value)]
            pause()
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if self._whole and type(value) is int and str(value) in self._whole:
            return replace(value)
        return value

    def _apply_dict(self, value: dict[str, object], replace: Replace, path: str, *, whole: bool) -> object:
        if is_mark(value):
            texts = () if is_encrypted(value) else value.values()
            return value if all(self.apply_text(str(text), as_mark) is text for text in texts) else replace(value)
        if self._is_spelt_by_place(value):
            return replace(value)
        pause()
        changed, found = False, {}
        for key, item in value.items():
            where = f"{path}/{pointer_part(key)}"
            if self.is_secret_field(key, where, item):
                new: object = replace(item)
            else:
                new = self.apply(item, replace, where, whole=whole)
            name = self.apply_text(key, as_mark)
            if whole and name is not key:
                return replace(value)
            changed = changed or new is not item or name is not key
            found[str(name)] = new
        return found if changed else value

    def apply_text(self, text: str, replace: Replace, *, whole: bool = False) -> object:
        """A text that is a secret as a whole is replaced; one that holds a secret keeps the rest, unless `whole`."""
        if text in self._whole or (len(text) >= SHORTEST_KNOWN and is_secret_alone(text)):
            return replace(text)
        left = self.take_out_shapes(self.take_out_known(text))
        return replace(text) if whole and left is not text else left

    def _is_spelt(self, items: list[object] | tuple[object, ...]) -> bool:
        """Whether a list is a secret, piece by piece."""
        return self._needles is not None and self._needles.are_spelt(items)

    def _is_spelt_by_place(self, value: dict[str, object]) -> bool:
        """Whether an object is one, as JavaScript writes bytes: `{"0":115,"1":51}`."""
        return next(iter(value), None) == "0" and all(map(str.isdecimal, value)) and self._is_spelt([*value.values()])

    def take_out_known(self, text: str) -> str:
        """The text without the secrets that were handed out, in any of their forms and encodings."""
        if self._needles is None or len(text) < SHORTEST_KNOWN:
            return text
        left = self._searched.get(text)
        if left is None:
            # All of them in the text as it came: one that is taken out first would leave what is left of a longer one.
            left = without(text, self._needles.spans(text))
            self._kept += len(text)
            if self._kept > MOST_KEPT:
                self._searched, self._kept = {}, len(text)
            if len(text) <= MOST_KEPT:
                self._searched[text] = left
        return text if left == text else left

    def take_out_shapes(self, text: str) -> str:
        if len(text) < SHORTEST_KNOWN:
            return text
        spans = list(secret_spans(text))
        return without(text, spans) if spans else text

    def without_known(self, value: object) -> object:
        """The value without the secrets that were handed out; the very same object where there is none."""
        if not self._whole:
            return value
        if isinstance(value, str):
            return REDACTED if value in self._whole else self.take_out_known(value)
        pause()
        if isinstance(value, dict):
            if self._is_spelt_by_place(value):
                return REDACTED
            pairs = {self.take_out_known(key): self.without_known(item) for key, item in value.items()}
            same = all(pairs.get(key, pairs) is item for key, item in value.items())
            return value if same else pairs
        if isinstance(value, list | tuple):
            if self._is_spelt(value):
                return REDACTED
            items = [self.without_known(item) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return REDACTED if type(value) is int and str(value) in self._whole else value

    def is_secret_field(self, name: str, path: str, value: object) -> bool:
        """Whether the value of a field is secret for its name or place."""
        kind = "any" if path in self._pointers else self._kind(name)
        if kind is None or not holds_something(value):
            return False
        if kind == "any" or not isinstance(value, str):
            return kind == "any"
        return len(value) >= SHORTEST_WHOLE and NAME_OF_ONE.fullmatch(value) is None

    def _kind(self, name: str) -> str | None:
        return "any" if plain(name) in self._names else name_kind(name)

    def find(self, value: object) -> list[str]:
        """JSON pointers of the secrets in a value, for a message that says where and not what."""
        return list(self._find(value, ""))

    def _find(self, value: object, path: str) -> Iterator[str]:
        if isinstance(value, dict):
            if not is_mark(value):
                if self._is_spelt_by_place(value):
                    yield path or "/"
                yield from self._find_in(value, path)
            elif self.apply(value, as_mark) is not value:
                yield path or "/"
        elif isinstance(value, list | tuple):
            if self._is_spelt(value):
                yield path or "/"
            for index, item in enumerate(value):
                yield from self._find(item, f"{path}/{index}")
        elif self.apply(value, as_mark) is not value or (isinstance(value, str) and REDACTED in value):
            # A mark is where a secret was: no call can be made with it, in a replay any more than before.
            yield path or "/"

    def _find_in(self, value: dict[str, object], path: str) -> Iterator[str]:
        for key, item in value.items():
            where = f"{path}/{pointer_part(key)}"
            if self.apply_text(key, as_mark) is not key:
                yield f"{path}/{REDACTED}"
            elif self.is_secret_field(key, where, item):
                yield where
            else:
                yield from self._find(item, where)


def places(value: object, matches: Callable[[object], bool], path: str = "") -> Iterator[str]:
    """JSON pointers of the scalars and names in a value for which `matches` holds; of a name, not what it says."""
    if isinstance(value, dict):
        for key, item in () if is_mark(value) else value.items():
            if matches(key):
                yield f"{path}/{REDACTED}"
            else:
                yield from places(item, matches, f"{path}/{pointer_part(key)}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from places(item, matches, f"{path}/{index}")
    elif matches(value):
        yield path or "/"


def as_mark(_: object) -> object:
    return REDACTED


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with each of the places marked; places that touch become one. The very same text where none is new."""
    left: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        if start > at or not left:
            left += [text[at:start], REDACTED]
        at = end
    new = "".join((*left, text[at:]))
    return text if new == text else new


def is_mark(value: dict[str, object]) -> bool:
    """A reference to a secret, or one that is encrypted: what may be written as it stands."""
    return is_encrypted(value) or is_secret(value)


def holds_mark(value: object) -> bool:
    """Whether something was taken out of a value: with what is left nothing can be called."""
    if isinstance(value, str):
        return REDACTED in value
    if isinstance(value, dict):
        return any(holds_mark(item) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(holds_mark(item) for item in value)


def pointer_part(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def holds_something(value: object) -> bool:
    """A reference, nothing, what was redacted already, or what says which type a parameter has is no secret."""
    if describes_type(value) or (isinstance(value, dict) and is_mark(value)):
        return False
    return value not in (None, "", REDACTED, True, False, [], {})


def describes_type(value: object) -> bool:
    """`{"type": "string"}`, as tools that are offered to a model have it for a parameter that is called `password`."""
    if not isinstance(value, dict) or not value.keys() <= TYPE_KEYWORDS or value.get("default"):
        return False
    choice = value.get("anyOf")
    return all(map(describes_type, choice)) if isinstance(choice, list) else value.get("type") in JSON_TYPES


def text_bytes(text: str) -> bytes:
    """A text as it stands inside canonical JSON; one that cannot stand there is looked for as it is."""
    try:
        return canonicalize(text)[1:-1]
    except UsageError:
        return text.encode("utf-8", "surrogatepass")
