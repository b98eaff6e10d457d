"""Each operation of json_transform as a function of a value and what was asked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reenact.builtin.transform.paths import follow, has
from reenact.errors import ReenactError, SkillError
from reenact.values.canonical import canonicalize


@dataclass(frozen=True)
class Request:
    path: str | None
    default: Any
    fields: list[str] | dict[str, str] | None
    where: list[dict[str, Any]] | dict[str, Any] | None
    other: Any
    by: str | None
    descending: bool
    separator: str


def extract(value: Any, request: Request) -> Any:
    """The value at `path`; `default`, where one is given and the path leads nowhere."""
    path = _needed(request.path, "path", "extract")
    return follow(value, path) if request.default is None else follow(value, path, request.default)


def pick(value: Any, request: Request) -> Any:
    """Only the named fields of an object, or of each object in a list. A field that is absent stays absent."""
    names = _names(request, "pick")
    return _each_object(value, lambda item: {name: item[name] for name in names if name in item})


def omit(value: Any, request: Request) -> Any:
    """All but the named fields of an object, or of each object in a list."""
    names = set(_names(request, "omit"))
    return _each_object(value, lambda item: {name: item[name] for name in item if name not in names})


def filter_items(value: Any, request: Request) -> Any:
    """The items of a list for which every condition of `where` holds, in their order."""
    conditions = [request.where] if isinstance(request.where, dict) else request.where
    if not conditions:
        raise _failed("filter needs where: conditions with path, op and value")
    tests = [_condition(condition) for condition in conditions]
    return [item for item in _list(_at(value, request), "filter") if all(test(item) for test in tests)]


def merge(value: Any, request: Request) -> Any:
    """`other` laid over the value: objects merge field by field, anything else is replaced.

    Without `other`, the objects of a list are laid over each other in their order.
    """
    layers = _list(value, "merge") if request.other is None else [value, request.other]
    result: Any = {}
    for layer in layers:
        if not isinstance(layer, dict):
            raise _failed("merge needs objects")
        result = _merged(result, layer)
    return result


def flatten(value: Any, request: Request) -> Any:
    """Nested objects to one object with joined names; nested lists to one list."""
    if isinstance(value, list):
        return _flat_list(value)
    if not isinstance(value, dict):
        raise _failed("flatten needs an object or a list")
    result: dict[str, Any] = {}
    _flat_object(value, "", request.separator, result)
    return result


def sort_items(value: Any, request: Request) -> Any:
    """A list in order, by the value at `by` where given. Equal items keep their order."""
    items = _list(_at(value, request), "sort")
    keys = [item if request.by is None else follow(item, request.by) for item in items]
    if not (all(_is_number(key) for key in keys) or all(isinstance(key, str) for key in keys)):
        raise _failed("sort needs keys that are all numbers or all texts")
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=request.descending)
    return [items[index] for index in order]


def map_items(value: Any, request: Request) -> Any:
    """Each item of a list: the value at `by`, or a new object from `fields` (name → path)."""
    items = _list(_at(value, request), "map")
    if isinstance(request.fields, dict):
        fields = request.fields
        return [{name: follow(item, path, None) for name, path in fields.items()} for item in items]
    by = _needed(request.by, "by, or fields as name → path", "map")
    return [follow(item, by) for item in items]


OPERATIONS: Mapping[str, Callable[[Any, Request], Any]] = {
    "extract": extract,
    "pick": pick,
    "omit": omit,
    "filter": filter_items,
    "merge": merge,
    "flatten": flatten,
    "sort": sort_items,
    "map": map_items,
}


def _at(value: Any, request: Request) -> Any:
    return value if request.path is None else follow(value, request.path)


def _needed(given: str | None, what: str, operation: str) -> str:
    if given is None:
        raise _failed(f"{operation} needs {what}")
    return given


def _names(request: Request, operation: str) -> list[str]:
    if not isinstance(request.fields, list):
        raise _failed(f"{operation} needs fields, a list of names")
    return request.fields


def _list(value: Any, operation: str) -> list[Any]:
    if not isinstance(value, list):
        raise _failed(f"{operation} needs a list")
    return value


def _each_object(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in items):
        raise _failed("an object or a list of objects is needed")
    changed = [change(item) for item in items]
    return changed if isinstance(value, list) else changed[0]


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for name, item in above.items():
        known = result.get(name)
        result[name] = _merged(known, item) if isinstance(known, dict) and isinstance(item, dict) else item
    return result


def _flat_list(items: list[Any]) -> list[Any]:
    return [leaf for item in items for leaf in (_flat_list(item) if isinstance(item, list) else [item])]


def _flat_object(value: Any, prefix: str, separator: str, result: dict[str, Any]) -> None:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in pairs:
        full = f"{prefix}{separator}{name}" if prefix else str(name)
        if isinstance(item, dict | list) and item:
            _flat_object(item, full, separator, result)
        elif full in result:
            raise _failed("two fields get the same name; choose another separator")
        else:
            result[full] = item


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _condition(condition: dict[str, Any]) -> Callable[[Any], bool]:
    path, op, wanted = condition.get("path", ""), condition.get("op", "eq"), condition.get("value")
    if not isinstance(path, str) or set(condition) - {"path", "op", "value"}:
        raise _failed("a condition has path, op and value")
    if op == "exists":
        return lambda item: has(item, path) is (wanted is not False)
    compare = _COMPARISONS.get(op)
    if compare is None:
        raise _failed(f"a condition's op is one of {', '.join(sorted([*_COMPARISONS, 'exists']))}")
    if op == "in" and isinstance(wanted, list):
        is_one = one_of(wanted)
        return lambda item: has(item, path) and is_one(follow(item, path))
    return lambda item: has(item, path) and compare(follow(item, path), wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Numbers with numbers, texts with texts; anything else is in no order, so that no condition on it holds."""

    def holds(found: Any, wanted: Any) -> bool:
        alike = (_is_number(found) and _is_number(wanted)) or (isinstance(found, str) and isinstance(wanted, str))
        return alike and compare(found, wanted)

    return holds


def _equal(found: Any, wanted: Any) -> bool:
    """As JSON sees it: true is not 1."""
    return isinstance(found, bool) is isinstance(wanted, bool) and bool(found == wanted)


def one_of(wanted: list[Any]) -> Callable[[Any], bool]:
    """Whether a value equals one of them: looked up, where each could only be compared with what has no key."""
    keys, others = set[object](), list[Any]()
    for item in wanted:
        key = _key(item)
        if key is _NO_KEY:
            others.append(item)
        else:
            keys.add(key)

    def holds(found: Any) -> bool:
        key = _key(found)
        if key is _NO_KEY:
            return any(_equal(found, item) for item in wanted)
        return key in keys or any(_equal(found, item) for item in others)

    return holds


_NO_KEY: Final = object()


def _key(value: Any) -> object:
    """The same for values that are equal, and for no others."""
    if isinstance(value, bool):
        return (value,)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if value == value else _NO_KEY  # noqa: PLR0124  # what is no number equals nothing
    try:
        return canonicalize(_without_bools(value))  # bytes, which nobody makes alike on purpose
    except (ReenactError, RecursionError, TypeError, ValueError):
        return _NO_KEY


def _without_bools(value: Any) -> Any:
    """Further in, true is 1: so lists and objects are compared."""
    if isinstance(value, list):
        return [_without_bools(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_bools(item) for name, item in value.items()}
    return int(value) if isinstance(value, bool) else value


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda found, wanted: not _equal(found, wanted),
    "lt": _ordered(operator.lt),
    "le": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "ge": _ordered(operator.ge),
    "in": lambda _found, _wanted: False,  # of what is no list
    "contains": lambda found, wanted: (
        (isinstance(found, str) and isinstance(wanted, str) and wanted in found)
        or (isinstance(found, list) and any(_equal(item, wanted) for item in found))
    ),
}


def _failed(why: str) -> SkillError:
    return SkillError.of("ERR_JSON_TRANSFORM_FAILED", why)
