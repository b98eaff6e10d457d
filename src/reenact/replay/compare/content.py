"""Content: what steps returned. It may differ in a replay that behaves the same, so it is told apart, never fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from reenact.contracts.stability import without_fields
from reenact.record.reader import RecordedStep
from reenact.values.canonical import canonicalize
from reenact.values.digest import sha256_hex

MOST_POINTERS = 20


class ContentDifference(Struct, frozen=True, kw_only=True):
    """Two outputs of one step that are not equal: their digests, and where they differ."""

    step_id: str
    expected: str | None
    got: str | None
    pointers: tuple[str, ...]


def output_of(step: RecordedStep) -> object:
    effect = step.trace.effect
    commitment = None if effect is None else effect.commitment("/output")
    return None if commitment is None else step.value(commitment, "tool_effect")


def content_difference(
    expected: RecordedStep, got: RecordedStep, expected_to_differ: Iterable[str] = ()
) -> ContentDifference | None:
    """Where two outputs differ, besides the fields whose skill declares that they do."""
    left, right = (without_fields(output_of(step), expected_to_differ) for step in (expected, got))
    if canonicalize(left) == canonicalize(right):
        return None
    pointers: list[str] = []
    for pointer in differing(left, right, ""):
        pointers.append(pointer or "/")
        if len(pointers) == MOST_POINTERS:
            break
    return ContentDifference(
        step_id=expected.step_id, expected=short(left), got=short(right), pointers=tuple(pointers)
    )  # fmt: skip


def short(value: object) -> str:
    return sha256_hex(canonicalize(value))[:16]


def differing(left: object, right: object, at: str) -> Iterator[str]:
    """JSON Pointers of the smallest values that differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            inside = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in left or key not in right:
                yield inside
            else:
                yield from differing(left[key], right[key], inside)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from differing(a, b, f"{at}/{index}")
    elif canonicalize(left) != canonicalize(right):
        yield at
