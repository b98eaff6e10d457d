"""What a pydantic model is as JSON, where its own word for it is not the same every time, or is none."""

from __future__ import annotations

import math
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class Unwritable(Exception):
    """Why a model has no JSON that could be recorded, and where in it."""

    def __init__(self, why: str, *tokens: str) -> None:
        super().__init__(why)
        self.tokens = list(tokens)
        """The innermost first."""


def written(model: Any) -> Any:
    """As its own serializers write it, but for sets: they have another order in every process, and are sorted.

    `Unwritable` where it cannot be written, and where stars would stand for what it holds.
    """
    kind = type(model).__qualname__
    try:
        dumped = model.model_dump(mode="json", by_alias=True)
    except (ValueError, TypeError) as error:  # what its own serializers say may quote the value
        raise Unwritable(f"pydantic cannot write a {kind} as JSON ({type(error).__name__})") from None
    return _in_order(_held(model), dumped)


def _held(model: Any) -> object:
    """What is written, before it becomes JSON."""
    try:
        return model.model_dump(mode="python", by_alias=True)
    except TypeError:  # a set of models: what pydantic makes of them cannot stand in a set
        return dict(model)


def _in_order(held: object, dumped: Any) -> Any:
    """`held` is the same value before it became JSON: member for member in the same order, where both have members."""
    if hasattr(held, "model_dump"):
        held = _held(held)
    if hasattr(held, "get_secret_value") and dumped == str(held) != held.get_secret_value():
        raise Unwritable("a pydantic secret is written as stars (hand it over as a text, or by its name: secrets=…)")
    if isinstance(held, dict) and isinstance(dumped, dict) and len(held) == len(dumped):
        return {name: _member(name, *pair) for name, pair in _pairs(held.values(), dumped)}
    if isinstance(held, list | tuple | set | frozenset) and isinstance(dumped, list) and len(held) == len(dumped):
        items = [_member(str(at), *pair) for at, pair in enumerate(zip(held, dumped, strict=True))]
        return sorted(items, key=_place) if isinstance(held, set | frozenset) else items
    return dumped


def _place(item: object) -> tuple[float, bytes]:
    """Numbers come in their order, and before all else."""
    return (item if isinstance(item, int | float) else math.inf, _encode(item))


def _pairs(held: Any, dumped: dict[str, Any]) -> Any:
    return ((name, (was, item)) for was, (name, item) in zip(held, dumped.items(), strict=True))


def _member(token: str, held: object, dumped: object) -> Any:
    try:
        return _in_order(held, dumped)
    except Unwritable as unwritable:
        unwritable.tokens.append(token)
        raise
