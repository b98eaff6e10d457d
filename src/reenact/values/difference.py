"""Where two JSON values first differ, as a JSON Pointer (RFC 6901) and the two sides."""

from __future__ import annotations

from typing import Final, NamedTuple

from reenact.values.canonical import canonicalize

ABSENT: Final = object()
"""On the side that has nothing there."""


class Difference(NamedTuple):
    """`before` or `after` is ABSENT where one side has nothing at that place."""

    pointer: str
    before: object
    after: object

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {shown(self.before)} → {shown(self.after)}"


def first_difference(before: object, after: object, pointer: str = "") -> Difference | None:
    """In the order of the canonical form, members sorted by name; None where both say the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            token = str(name).replace("~", "~0").replace("/", "~1")
            found = first_difference(before.get(name, ABSENT), after.get(name, ABSENT), f"{pointer}/{token}")
            if found is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            old, new = (side[number] if number < len(side) else ABSENT for side in (before, after))
            found = first_difference(old, new, f"{pointer}/{number}")
            if found is not None:
                return found
        return None
    if before is ABSENT or after is ABSENT or canonicalize(before) != canonicalize(after):
        return Difference(pointer, before, after)
    return None


def shown(value: object, longest: int = 80) -> str:
    """One side, short enough for a line; a text without its quotes."""
    if value is ABSENT:
        return "nothing"
    text = value if isinstance(value, str) else canonicalize(value).decode()
    text = " ".join(text.split()) if isinstance(value, str) else text
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
