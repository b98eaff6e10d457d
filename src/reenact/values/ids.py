"""Identifiers: which texts are UUIDv7, and what stands for those that are not."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from reenact.errors import UsageError

_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def is_uuid7(text: str) -> bool:
    """True if all of `text` is a UUIDv7 in lowercase."""
    return _UUID7.fullmatch(text) is not None


def uuid7_ms(text: str) -> int:
    """The Unix milliseconds at which a UUIDv7 was made."""
    return int(text[:8] + text[9:13], 16)


def format_uuid(value: int) -> str:
    """The text of a 128-bit UUID."""
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def project_uuid7(text: str) -> str:
    """`text` itself when it is a UUIDv7, else a UUIDv7 that stands for it: equal texts, equal ids.

    The projection is the first 16 bytes of SHA-256 over the UTF-8 of `text`, with version and variant bits
    set.
    """
    if is_uuid7(text):
        return text
    projected = bytearray(sha256(text.encode()).digest()[:16])
    projected[6] = projected[6] & 0x0F | 0x70
    projected[8] = projected[8] & 0x3F | 0x80
    return format_uuid(int.from_bytes(projected, "big"))


NO_NUL = "holds the character U+0000, which no store keeps in an id, a name, a key or a reason"


def refuse_nul(what: str, text: str) -> None:
    """UsageError for what a database could not hold: one rule for all of them, asked before anything is written."""
    if "\0" in text:
        raise UsageError(f"{what} {NO_NUL}")
