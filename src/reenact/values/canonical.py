"""Canonical JSON: RFC 8785 exactly, and nothing that RFC 8785 leaves open.

`canonicalize` has two ways to the same bytes. The strict writer below decides each value itself. The fast way
hands the whole value to msgspec's C encoder, after a guard has shown for this very value that the encoder
writes what the strict writer would; whatever the guard cannot show goes to the strict writer.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from json.encoder import encode_basestring  # its escapes are those of RFC 8785, 3.2.2.2
from math import isfinite
from types import NoneType
from typing import Any, Final, NoReturn, cast

import msgspec

from reenact.errors import CanonicalizationError, JsonSyntaxError
from reenact.values.guard import Guard, compile_guard
from reenact.values.numbers import format_number
from reenact.values.parse import MAX_DEPTH, MAX_SAFE_INTEGER, parse_json, read
from reenact.values.refusal import advice
from reenact.values.shape import members_of, shape_of

__all__ = [
    "MAX_DEPTH",
    "MAX_SAFE_INTEGER",
    "as_recorded",
    "canonicalize",
    "in_order",
    "parse_canonical",
    "parse_json",
    "read_back",
]

# "sorted" orders dict keys and struct fields by their UTF-8 bytes; the guard lets only ASCII keys through,
# for which that is the order of RFC 8785.
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_decode: Final = msgspec.json.Decoder().decode

LONG_ARRAY: Final = 16

_OBJECTS: Final = frozenset({dict, OrderedDict, defaultdict})
_ARRAYS: Final = frozenset({list, tuple})
_LEAST: Final = -MAX_SAFE_INTEGER
_LONG_NUMBER: Final = re.compile(rb"\d{16}")

GUARDS: Final[dict[type, Guard]] = {}
"""The guard of each type that has parts; those of struct classes are added when they are first met."""


def canonicalize(obj: object) -> bytes:
    """The RFC 8785 bytes of `obj`, or CanonicalizationError with a JSON Pointer to what JSON cannot say.

    Accepted are dict, list, tuple, str, int, float, bool, None, and msgspec structs with their `rename`,
    `tag`, `omit_defaults` and UNSET. Equal JSON values give equal bytes, whatever Python types spell them.
    Subclasses of the scalar types, enums included, are refused: what they stand for is the caller's to say.
    """
    try:
        guard = GUARDS.get(type(obj))  # looked up here too: a call less, for the many small records
        if guard(obj, 0) if guard is not None else is_exact(obj):
            return _encode(obj)
    except (UnicodeEncodeError, RecursionError, AttributeError):
        pass  # a lone surrogate, an endless structure, a field that was never set: the strict writer says where
    return _canonicalize_strictly(obj)


def parse_canonical(data: bytes, *, what: str = "canonical JSON") -> object:
    """The value whose canonical form is exactly `data`; JsonSyntaxError for any other bytes.

    Reads back all that `canonicalize` writes. `parse_json` does not quite: canonical JSON prints a float of 2^53 up
    to 1e21 as plain digits, which a strict reader must take for an integer too large to be exact.
    """
    if _LONG_NUMBER.search(data) is None:
        try:
            quickly = _decode(data)
            if canonicalize(quickly) == data:
                return quickly
        except (ValueError, RecursionError, CanonicalizationError):
            pass  # the careful reader says what is wrong, and where
    value = read(data, what, _printed_integer)
    again = canonicalize(value)
    if again != data:
        before = data[: same_until(again, data)].decode(errors="ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise JsonSyntaxError(f"{what}: not in canonical form", line=line, column=column)
    return value


def same_until(left: bytes, right: bytes) -> int:
    """How many bytes two texts have in common at their beginning; halving, each comparison at C speed."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def read_back(content: bytes) -> object:
    """The value of bytes that `canonicalize` has just given: a plain copy, without checking once more what it wrote."""
    return parse_canonical(content) if _LONG_NUMBER.search(content) is not None else _decode(content)


def _printed_integer(text: str) -> int | float:
    if len(text) > 22:
        raise ValueError  # beyond 21 digits and a sign, canonical numbers have an exponent
    value = int(text)
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else float(value)


def is_exact(value: Any, depth: int = 0) -> bool:
    """True if the C encoder is known to write what the strict writer would; False decides nothing.

    Types are compared by identity, since msgspec also encodes enums, bytes, dates and sets, which are to be refused.
    Lone surrogates are left to the encoder, which refuses them.
    """
    kind: type = type(value)
    guard = GUARDS.get(kind)
    if guard is not None:
        return guard(value, depth)
    if kind is str or kind is bool or kind is NoneType:
        return True
    if kind is int:
        return bool(_LEAST <= value <= MAX_SAFE_INTEGER)
    if kind is float:
        return _is_plain_decimal(value)
    if isinstance(value, msgspec.Struct):
        guard = GUARDS[kind] = compile_guard(kind, is_exact)
        return guard(value, depth)
    return False


def _is_plain_decimal(value: float) -> bool:
    """Within these bounds every printer of shortest decimals writes digits, a point and digits."""
    return (0.001 <= value < 1e9 or -1e9 < value <= -0.001) and not value.is_integer()


def _array_is_exact(items: Any, depth: int) -> bool:
    if depth >= MAX_DEPTH:
        return False
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if kind is int and _LEAST <= item <= MAX_SAFE_INTEGER:
            continue
        if not is_exact(item, depth + 1):
            return False
    return True


def _object_is_exact(members: dict[Any, Any], depth: int) -> bool:
    if depth >= MAX_DEPTH:
        return False
    for key, item in members.items():
        if type(key) is not str or not key.isascii():
            return False
        kind = type(item)
        if kind is str or kind is bool or kind is NoneType:
            continue
        if kind is int and _LEAST <= item <= MAX_SAFE_INTEGER:
            continue
        if not is_exact(item, depth + 1):
            return False
    return True


GUARDS[dict] = _object_is_exact
GUARDS[list] = GUARDS[tuple] = _array_is_exact


class _Refused(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.tokens: list[str] = []


def _canonicalize_strictly(obj: object) -> bytes:
    parts: list[str] = []
    try:
        _write(obj, parts, 0)
    except _Refused as refused:
        raise CanonicalizationError(refused.message, path=_pointer(refused.tokens[::-1])) from None
    except RecursionError:
        _refuse_nesting(obj)
    return "".join(parts).encode()


def _write(value: object, parts: list[str], depth: int) -> None:
    kind = type(value)
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        parts.append(scalar(value))
        return
    if depth >= MAX_DEPTH:
        raise RecursionError
    if kind in _ARRAYS:
        opening = "["
        for index, item in enumerate(cast("list[object]", value)):
            parts.append(opening)
            opening = ","
            try:
                _write(item, parts, depth + 1)
            except _Refused as refused:
                refused.tokens.append(str(index))
                raise
        parts.append("]" if value else "[]")
        return
    opening = "{"
    members = _members(value, kind)
    for key in in_order(members):
        try:
            parts.append(f"{opening}{_string(key)}:")
            _write_member(members[key], parts, depth + 1)
        except _Refused as refused:
            refused.tokens.append(key)
            raise
        opening = ","
    parts.append("}" if members else "{}")


def _write_member(value: object, parts: list[str], depth: int) -> None:
    """A long array may well be exact where what stands beside it is not: a plan's steps beside its retry policy."""
    if type(value) is list and len(value) >= LONG_ARRAY and is_exact(value, depth):
        try:
            parts.append(_encode(value).decode())
        except UnicodeEncodeError:
            pass  # a lone surrogate: the strict writer says where
        else:
            return
    _write(value, parts, depth)


def _members(value: object, kind: type) -> dict[str, object]:
    """The members of a JSON object; refuses what is no JSON object."""
    if kind in _OBJECTS:
        members = cast("dict[str, object]", value)
        for key in members:
            if type(key) is not str:
                raise _Refused(f"a key of type {type(key).__name__} (keys are plain strings)")
        return members
    if isinstance(value, msgspec.Struct) and not shape_of(type(value)).array_like:
        try:
            return members_of(value, _canonicalize_strictly)
        except AttributeError:
            raise _Refused(f"a {kind.__name__} with a field that was never set") from None
    raise _Refused(advice(value))


def in_order(members: dict[str, object]) -> list[str]:
    """The names of an object's members in the order of RFC 8785, 3.2.3: by UTF-16 code units."""
    if "".join(members).isascii():  # for those it is the order of code points
        return sorted(members)
    return sorted(members, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _string(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused("a text with a lone surrogate, which is not Unicode") from None
    return encode_basestring(value)


def _integer(value: int) -> str:
    if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return str(value)
    raise _Refused("an integer beyond ±(2^53−1), which JSON numbers cannot hold exactly (write it as a string)")


def _float(value: float) -> str:
    try:
        return format_number(value)
    except ValueError:
        raise _Refused("NaN or an infinity, which JSON does not have (use null or a string)") from None


_SCALARS: Final[dict[type, Callable[[Any], str]]] = {
    str: _string,
    int: _integer,
    float: _float,
    bool: lambda value: "true" if value else "false",
    NoneType: lambda _: "null",
}


def _refuse_nesting(obj: object) -> NoReturn:
    """Tell an endless structure from one that is merely too deep, and point at the place where it closes."""
    tokens = _closing_of_a_circle(obj)
    if tokens is None:
        path = _pointer(_first_too_deep(obj))
        raise CanonicalizationError(f"nested deeper than {MAX_DEPTH} arrays and objects", path=path) from None
    raise CanonicalizationError("a circular reference", path=_pointer(tokens)) from None


def _closing_of_a_circle(root: object) -> list[str] | None:
    """Depth first without recursion; each container is entered once, so that shared ones cost nothing."""
    done: set[int] = set()
    above: dict[int, str] = {id(root): ""}
    stack = [(root, iter(_children(root)))]
    while stack:
        container, children = stack[-1]
        for token, child in children:
            if id(child) in above:
                return [*list(above.values())[1:], token]
            if id(child) not in done and type(child) not in _SCALARS:
                above[id(child)] = token
                stack.append((child, iter(_children(child))))
                break
        else:
            stack.pop()
            done.add(id(container))
            del above[id(container)]
    return None


def _first_too_deep(root: object) -> list[str]:
    """The way to a container inside MAX_DEPTH others; none where it is only the caller's stack that ends.

    Shared containers are entered again only where they lie deeper than before: each at most MAX_DEPTH times.
    """
    deepest: dict[int, int] = {}
    stack = [("", iter(_children(root)))]
    while stack:
        for token, child in stack[-1][1]:
            if type(child) in _SCALARS or deepest.get(id(child), 0) >= len(stack):
                continue
            if len(stack) >= MAX_DEPTH:
                return [*(taken for taken, _ in stack[1:]), token]
            deepest[id(child)] = len(stack)
            stack.append((token, iter(_children(child))))
            break
        else:
            stack.pop()
    return []


def _children(container: object) -> list[tuple[str, object]]:
    if type(container) in _ARRAYS:
        return [(str(index), item) for index, item in enumerate(cast("list[object]", container))]
    if type(container) in _OBJECTS:
        return [(str(key), item) for key, item in cast("dict[str, object]", container).items()]
    if isinstance(container, msgspec.Struct):
        return list(zip(container.__struct_encode_fields__, msgspec.structs.astuple(container), strict=True))
    return []


def _pointer(tokens: list[str]) -> str:
    """RFC 6901, fit to be printed: a surrogate in a key is shown escaped."""
    path = "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
    return path.encode("utf-8", "backslashreplace").decode()


# -- values as a record gives them back --------------------------------------------------------------------------------


def as_recorded(value: object) -> object:
    """The value that `parse_canonical` reads from the canonical bytes of `value`; `value` itself where they are one.

    Canonical JSON has one spelling for 2 and 2.0, for a list and a tuple, and for the order of keys. What it has none
    for is a CanonicalizationError.
    """
    try:
        if _reads_back(value):
            return value
    except RecursionError:
        pass  # too deep, or a circle: refused below, with the place
    return read_back(canonicalize(value))


def number_as_recorded(value: float) -> int | float:
    """A finite float as it is read again: whole ones are integers, as far as those are exact."""
    return int(value) if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER else value


def _reads_back(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return cast("str", value).isascii() or _is_unicode(cast("str", value))
    if kind is int:
        return -MAX_SAFE_INTEGER <= cast("int", value) <= MAX_SAFE_INTEGER
    if kind is bool or value is None:
        return True
    if kind is float:
        return isfinite(cast("float", value)) and type(number_as_recorded(cast("float", value))) is float
    if kind is dict:
        members = cast("dict[object, object]", value)
        last = ""
        for key, item in members.items():
            if type(key) is not str or not key.isascii() or key < last or not _reads_back(item):
                return False  # a key that is not ASCII may be in its place; canonical JSON knows
            last = key
        return True
    return kind is list and all(map(_reads_back, cast("list[object]", value)))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
