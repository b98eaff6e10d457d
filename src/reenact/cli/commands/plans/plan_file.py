"""A plan's file: read, checked, and each mistake in it told with its line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from reenact.errors import JsonSyntaxError, PlanError, UsageError

if TYPE_CHECKING:
    from reenact.contracts.plan import Plan

# Where the checks of a plan say that something is: `$.steps[2].retry`, or `$.context.pins.skills['http_call@1.2.0']`.
_PATH: Final = re.compile(r"\$(?:\.\w+|\[\d+\]|\['[^']*'\])*")
_PART: Final = re.compile(r"\.(\w+)|\[(\d+)\]|\['([^']*)'\]")
_DECODER_SAYS: Final = re.compile(r" - at `(?=\$)")
_UNKNOWN_FIELD: Final = "unknown field `"
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan that could be read, and the text that it was read from."""

    path: Path
    text: str
    plan: Plan
    document: dict[str, object]

    def saying(self, **said: object) -> PlanFile:
        """With this in its context; UsageError where that says something else."""
        from reenact.contracts.plan import plan_from_document

        given = {name: value for name, value in said.items() if value is not None}
        context = self.document.get("context", {})
        if not given or not isinstance(context, dict):
            return self
        for name, value in given.items():
            if context.get(name) not in (None, value):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} says {value!r}, and the plan's context {context[name]!r}; say it once")
        document = {**self.document, "context": {**context, **given}}
        try:
            plan, _ = plan_from_document(document, source="the options")
        except PlanError as error:
            raise UsageError(str(error)) from None
        return replace(self, plan=plan, document=document)

    def located(self, work: Callable[[], T]) -> T:
        """What `work` gives; a mistake that it finds in the plan is told with line and column."""
        try:
            return work()
        except PlanError as error:
            said = str(error)
            named = said if said.startswith(f"{self.path}:") else f"{self.path}: {said}"
            raise PlanError(with_place(named, self.text, self.path), code=error.code) from None


def read_plan(path: Path) -> PlanFile:
    """The plan in a file. PlanError where it cannot be read; a mistake in it is told with line and column."""
    from reenact.contracts.plan import parse_plan
    from reenact.values.bounds import read_file

    try:
        data = read_file(path)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or 'cannot be read'}; name a plan file") from None
    try:
        plan, document = parse_plan(data, source=str(path))
    except PlanError as error:
        raise PlanError(with_place(str(error), data.decode(), path)) from None
    except JsonSyntaxError as error:
        if path.suffix not in (".yaml", ".yml"):
            raise
        raise PlanError(f"{error}; a plan is JSON, not YAML") from None
    return PlanFile(path, data.decode(), plan, document)


def with_place(message: str, text: str, source: Path) -> str:
    """The message of a mistake in a JSON text, with the line and column that its path leads to.

    Names in the file may look like a path too: where the decoder speaks, its own comes last, else ours comes first.
    """
    said = message.removeprefix(f"{source}: ")
    ends = [found.end() for found in _DECODER_SAYS.finditer(said)]
    path = _PATH.search(said, ends[-1] if ends else 0)
    if path is None:
        return message
    parts: list[str | int] = [int(number) if number else name or key for name, number, key in _PART.findall(path[0])]
    _, known, rest = said.partition(_UNKNOWN_FIELD)
    unknown = rest.rpartition("` - at `$")
    at = place_of(text, [*parts, unknown[0]] if known and unknown[1] else parts)
    line = text.count("\n", 0, at) + 1
    return f"{message} (line {line}, column {at - text.rfind(chr(10), 0, at)})"


def place_of(text: str, path: list[str | int]) -> int:
    """Where the value at `path` begins in a valid JSON text, or its nearest container that is there."""
    at = skip_space(text, 0)
    for part in path:
        found = child(text, at, part)
        if found is None:
            return at
        at = found
    return at


def child(text: str, at: int, wanted: str | int) -> int | None:
    """Where the member or element `wanted` of the container at `at` begins."""
    in_object = text[at] == "{"
    if text[at] not in "{[" or in_object is isinstance(wanted, int):
        return None
    at = skip_space(text, at + 1)
    number = 0
    while text[at] not in "}]":
        key: str | int = number
        if in_object:
            key, at = _DECODER.raw_decode(text, at)
            at = skip_space(text, skip_space(text, at) + 1)
        if key == wanted:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = skip_space(text, at)
        if text[at] == ",":
            at = skip_space(text, at + 1)
        number += 1
    return None


def skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "any number of spaces, none too, matches"
    return found.end()
