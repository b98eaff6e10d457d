"""Hashing inputs: of their bytes, or of the value that a YAML or JSON text holds."""

from __future__ import annotations

import hashlib

from reenact.errors import HashingError, Undecidable, Unparseable
from reenact.provenance.yaml import value as yaml_value

__all__ = [
    "HashingError",
    "Undecidable",
    "Unparseable",
    "canonical_text",
    "hash_raw",
    "hash_raw_decoded",
    "hash_structured",
    "hash_structured_with_warnings",
]


def hash_raw(data: bytes) -> str:
    """`sha256:` and 64 lowercase hex digits over the bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def hash_raw_decoded(data: bytes) -> str:
    """The raw hash of a tool that decodes a file as UTF-8 first: each invalid sequence hashes as U+FFFD."""
    return hash_raw(decode(data).encode())


def hash_structured(text: str | bytes) -> str:
    """The hash of the value that a YAML 1.2 (or JSON) text holds; comments, layout and key order are free.

    Unparseable: the text has no value. Undecidable: it uses what our reader does not decide. Neither message
    holds any of the text.
    """
    return hash_structured_with_warnings(text)[0]


def hash_structured_with_warnings(text: str | bytes) -> tuple[str, list[str]]:
    """`hash_structured`, with a line for each part of the text that the hash does not cover."""
    canonical, warnings = canonical_text(text)
    return hash_raw(canonical.encode("utf-8")), warnings


def canonical_text(text: str | bytes) -> tuple[str, list[str]]:
    """What is hashed: the value as compact JSON with sorted keys, and the warnings about it."""
    return yaml_value.canonical(decode(text) if isinstance(text, bytes) else text)


def decode(data: bytes) -> str:
    """UTF-8, with U+FFFD for each invalid sequence."""
    return data.decode("utf-8", "replace")
