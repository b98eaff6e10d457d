"""Truncation of what is shown: the first and the last part of a text, counted in code points.

Hashes cover the whole value, never what is left of it here; parameters are never cut.
"""

from __future__ import annotations

from typing import Final

from reenact.values.canonical import canonicalize

GAP: Final = "..."
MOST_PREVIEW: Final = 2000
MOST_OUTPUT: Final = 10_000


def output_preview(value: object) -> str:
    """A value for `output_preview`: a text as it is, anything else as canonical JSON; 1000 characters of either end."""
    return cut(value if isinstance(value, str) else canonicalize(value).decode(), MOST_PREVIEW)


def command_output(text: str) -> str:
    """What a command wrote to stdout or stderr: 5000 characters of either end."""
    return cut(text, MOST_OUTPUT)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most // 2] + GAP + text[-(most // 2) :]
