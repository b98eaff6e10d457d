"""Registries of tools that the host brings along, from files or as they are: they become part of every plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from reenact.contracts.plan import PIN_AGAIN
from reenact.contracts.tool_registry import read_tool_registry
from reenact.errors import PlanError
from reenact.values.bounds import read_file
from reenact.values.canonical import parse_json

Document = dict[str, object]


def load_registries(given: Iterable[Mapping[str, object] | str | Path]) -> list[Document]:
    """The documents, each checked; a path is read. PlanError names the file and the place of a mistake."""
    return [load_registry(item) for item in given]


def load_registry(given: Mapping[str, object] | str | Path) -> Document:
    if isinstance(given, Mapping):
        document: object = dict(given)
        read_tool_registry(document)
    else:
        try:
            data = read_file(given)
        except OSError as error:
            raise PlanError(f"{given}: {error.strerror or 'cannot be read'}; name a file with a registry") from None
        document = parse_json(data, what=str(given))
        read_tool_registry(document, source=str(given))
    assert isinstance(document, dict)
    return document


def with_registries(document: Document, registries: list[Document], *, source: str) -> Document:
    """The plan with the host's registries beside its own.

    A plan that is pinned is not changed any more: it has them, or is refused.
    """
    context = document.get("context")
    before: Document = context if isinstance(context, dict) else {}
    after = with_host_registries(before, registries)
    if after is before:
        return document
    if before.get("pins") is not None:
        raise PlanError(
            f"{source}: the plan is pinned without the registries of tools that are in force here; {PIN_AGAIN}"
        )
    return {**document, "context": after}


def with_host_registries(context: Document, registries: list[Document]) -> Document:
    """The context with the host's registries; itself where it has them all."""
    own = context.get("tool_registries", [])
    missing = [registry for registry in registries if registry not in own] if isinstance(own, list) else []
    return {**context, "tool_registries": [*own, *missing]} if missing else context  # type: ignore[misc]  # a list


def check_registries(registries: Iterable[object], *, source: str) -> None:
    """PlanError that names the place of a mistake."""
    for number, registry in enumerate(registries):
        read_tool_registry(registry, source=f"{source}: $.context.tool_registries[{number}]")
