"""Escaping foreign text for a terminal, a log or a page: it can say anything, and do nothing."""

from __future__ import annotations

import html
import re
from typing import Final

# Build services act on such markers anywhere in a line: `##[group]`, `##vso[…]`, `##teamcity[…]`.
SERVICE_MESSAGE = re.compile(r"##(?=\w*\[)")
_PLAIN_IN_MARKDOWN = re.compile(r"[^A-Za-z0-9 /.,:;()=%+-]")

MAX_SHOWN: Final = 400


def printable(text: str, limit: int = MAX_SHOWN) -> str:
    """One line that shows `text`: control, format and separator characters as escapes, the middle of long
    text cut.

    The result has no line break, no terminal sequence, no bidirectional override and no message to a build
    service.
    """
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}…({len(text) - 2 * half} more)…{text[-half:]}"
    shown = "".join(char if char.isprintable() else _escaped(char) for char in text)
    return SERVICE_MESSAGE.sub(r"#\\x23", shown)


def _escaped(char: str) -> str:
    code = ord(char)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if short:
        return short
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def in_markup(text: str) -> str:
    """Text for XML and HTML, in content and in attributes."""
    return html.escape(printable(text))


def in_markdown(text: str) -> str:
    """Text that stays text in a markdown table: everything that could mean something is a character reference."""
    return _PLAIN_IN_MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", printable(text))
