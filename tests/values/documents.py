"""Random JSON documents from a seed: much faster than drawing them one by one from a property-testing library."""

from __future__ import annotations

import random
import struct

LETTERS = [
    *"abcXYZ019 _-./~",
    *'"\\\b\f\n\r\t\x00\x1f\x7f',
    *"\x80é߿ࠀ\u2028\u2029\ud7ff\ue000\uffff",
    *"\U00010000\U0001f510\U0010ffff",
]
ASCII = [letter for letter in LETTERS if letter.isascii()]
NUMBERS = [0, 1, -1, 10, 2**31, 2**53 - 1, -(2**53 - 1), 0.0, -0.0, 1.0, 0.1, 1e-6, 1e-7, 1e20, 1e21, 5e-324, 1e16]


def random_text(source: random.Random, letters: list[str] = LETTERS) -> str:
    return "".join(source.choices(letters, k=source.randrange(7)))


def random_float(source: random.Random) -> float:
    while True:
        (value,) = struct.unpack(">d", source.randbytes(8))
        if value - value == 0:
            return float(value)


def random_number(source: random.Random) -> int | float:
    kind = source.randrange(6)
    if kind == 0:
        return source.choice(NUMBERS)
    if kind == 1:
        return random_float(source)
    if kind == 2:
        return source.randrange(-(2**53) + 1, 2**53)
    if kind == 3:
        return round(source.uniform(-1000, 1000), source.randrange(5))
    return source.randrange(-100, 100)


def random_document(source: random.Random, depth: int = 0) -> object:
    kind = source.randrange(0 if depth else 5, 10 if depth < 3 else 6)
    if kind <= 1:
        return random_text(source)
    if kind <= 3:
        return random_number(source)
    if kind == 4:
        return source.choice([None, True, False])
    if kind == 5:
        return "".join(source.choices("abcdefgh", k=source.randrange(12)))
    items = [random_document(source, depth + 1) for _ in range(source.randrange(8))]
    if kind <= 7:
        return items if kind == 6 else tuple(items)
    letters = ASCII if source.random() < 0.5 else LETTERS
    return {random_text(source, letters): item for item in items}
