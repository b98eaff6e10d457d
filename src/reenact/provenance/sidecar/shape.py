"""A small checker of JSON shapes that names all that is wrong at once, in the words of the original tool.

Its issues are mappings whose keys and order are what the original prints, so that a compatible report
needs no second checker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Path = tuple[str | int, ...]
Issue = dict[str, object]


@dataclass
class Findings:
    """What a check has found. With `ignore_unknown`, unknown fields are dropped and listed in `ignored`."""

    ignore_unknown: bool = False
    issues: list[Issue] = field(default_factory=list)
    ignored: list[Path] = field(default_factory=list)


class Missing:
    """The value of a field that is not there."""


MISSING = Missing()

# A shape takes a value, its path and the findings; it adds issues, and returns the value as it may be used.
Shape = Callable[[object, Path, Findings], object]


def type_name(value: object) -> str:
    """JavaScript's word for the type of a JSON value."""
    if value is MISSING:
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _wrong_type(expected: str, value: object, path: Path) -> Issue:
    received = type_name(value)
    message = "Required" if value is MISSING else f"Expected {expected}, received {received}"
    return {
        "code": "invalid_type",
        "expected": expected,
        "received": received,
        "path": list(path),
        "message": message,
    }


def literal(expected: str | float) -> Shape:
    """Exactly this value; numbers compare as numbers, and a boolean is none."""

    def check(value: object, path: Path, findings: Findings) -> object:
        if type_name(value) != type_name(expected) or value != expected:
            shown = repr(expected) if isinstance(expected, str) else str(expected)
            issue: Issue = {} if value is MISSING else {"received": value}
            issue |= {"code": "invalid_literal", "expected": expected, "path": list(path)}
            findings.issues.append(issue | {"message": f"Invalid literal value, expected {shown}"})
        return expected

    return check


def one_of(*options: str) -> Shape:
    listed = " | ".join(f"'{option}'" for option in options)

    def check(value: object, path: Path, findings: Findings) -> object:
        if not isinstance(value, str):
            wrong = _wrong_type(listed, value, path)
            keys = ("expected", "received", "code", "path", "message")
            findings.issues.append({key: wrong[key] for key in keys})
        elif value not in options:
            message = f"Invalid enum value. Expected {listed}, received '{value}'"
            findings.issues.append(
                {
                    "received": value,
                    "code": "invalid_enum_value",
                    "options": list(options),
                    "path": list(path),
                    "message": message,
                }
            )
        return value

    return check


def boolean(value: object, path: Path, findings: Findings) -> object:
    if not isinstance(value, bool):
        findings.issues.append(_wrong_type("boolean", value, path))
    return value


def string(*, filled: bool = False) -> Shape:
    """Any string; with `filled`, not the empty one."""

    def check(value: object, path: Path, findings: Findings) -> object:
        if not isinstance(value, str):
            findings.issues.append(_wrong_type("string", value, path))
        elif filled and not value:
            findings.issues.append(
                {
                    "code": "too_small",
                    "minimum": 1,
                    "type": "string",
                    "inclusive": True,
                    "exact": False,
                    "message": "String must contain at least 1 character(s)",
                    "path": list(path),
                }
            )
        return value

    return check


def pattern(expression: re.Pattern[str]) -> Shape:
    """A string that the expression matches from end to end."""

    def check(value: object, path: Path, findings: Findings) -> object:
        if not isinstance(value, str):
            findings.issues.append(_wrong_type("string", value, path))
        elif not expression.fullmatch(value):
            findings.issues.append(
                {"validation": "regex", "code": "invalid_string", "message": "Invalid", "path": list(path)}
            )
        return value

    return check


def validated(validation: str, holds: Callable[[str], bool], message: str) -> Shape:
    """A string of which `holds` is true."""

    def check(value: object, path: Path, findings: Findings) -> object:
        if not isinstance(value, str):
            findings.issues.append(_wrong_type("string", value, path))
        elif not holds(value):
            issue: Issue = {"code": "invalid_string", "validation": validation, "message": message}
            findings.issues.append(issue | {"path": list(path)})
        return value

    return check


def number(*, integer: bool = False, above_zero: bool = False) -> Shape:
    """A number; a whole one comes back as an int."""

    def check(value: object, path: Path, findings: Findings) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            findings.issues.append(_wrong_type("number", value, path))
            return value
        whole = math.isfinite(value) and value == math.floor(value)
        if integer and not whole:
            issue: Issue = {"code": "invalid_type", "expected": "integer", "received": "float"}
            issue |= {"message": "Expected integer, received float", "path": list(path)}
            findings.issues.append(issue)
        if above_zero and value <= 0:
            findings.issues.append(
                {
                    "code": "too_small",
                    "minimum": 0,
                    "type": "number",
                    "inclusive": False,
                    "exact": False,
                    "message": "Number must be greater than 0",
                    "path": list(path),
                }
            )
        return int(value) if integer and whole else value

    return check


def at_least_zero(value: object, path: Path, findings: Findings) -> object:
    """A whole number that is not negative."""
    checked = number(integer=True)(value, path, findings)
    if isinstance(checked, int) and not isinstance(checked, bool) and checked < 0:
        issue: Issue = {
            "code": "too_small",
            "minimum": 0,
            "type": "number",
            "inclusive": True,
            "exact": False,
        }
        message = "Number must be greater than or equal to 0"
        findings.issues.append(issue | {"message": message, "path": list(path)})
    return checked


def nullable(shape: Shape) -> Shape:
    def check(value: object, path: Path, findings: Findings) -> object:
        return None if value is None else shape(value, path, findings)

    return check


def array(shape: Shape) -> Shape:
    def check(value: object, path: Path, findings: Findings) -> object:
        if not isinstance(value, list):
            findings.issues.append(_wrong_type("array", value, path))
            return value
        return [shape(item, (*path, index), findings) for index, item in enumerate(value)]

    return check


def closed(fields: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object with exactly these fields; the optional ones may be left out."""
    known = {**fields, **(optional or {})}

    def check(value: object, path: Path, findings: Findings) -> object:
        if not isinstance(value, dict):
            findings.issues.append(_wrong_type("object", value, path))
            return value
        result = {}
        for name, shape in known.items():
            if name in value:
                result[name] = shape(value[name], (*path, name), findings)
            elif name in fields:
                shape(MISSING, (*path, name), findings)
        unknown = [key for key in value if key not in known]
        if unknown and findings.ignore_unknown:
            findings.ignored.extend((*path, key) for key in unknown)
        elif unknown:
            listed = ", ".join(f"'{key}'" for key in unknown)
            issue: Issue = {"code": "unrecognized_keys", "keys": unknown, "path": list(path)}
            findings.issues.append(issue | {"message": f"Unrecognized key(s) in object: {listed}"})
        return result

    return check


def path_text(path: Path) -> str:
    """`models[0].id` for ("models", 0, "id")."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".") or "the top level"
