"""JSON texts that others hash, and that are not canonical JSON.

`sorted_json` is what keys of repeated calls are made from: the standard library's. Such keys are shared with loops that
never heard of Reenact, so their bytes are fixed: `", "` and `": "` between the tokens, every character beyond ASCII
escaped, `1` and `1.0` told apart. `code_point_json` is how other producers of replay logs write a value. Nothing else
is hashed in these forms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.encoder import encode_basestring


def sorted_json(value: object) -> str:
    """`json.dumps(value, sort_keys=True)`, with NaN and the infinities refused.

    Raises TypeError, ValueError or RecursionError for what JSON cannot express.
    """
    return json.dumps(value, sort_keys=True, allow_nan=False)


def code_point_json(value: object) -> bytes:
    """JSON as other producers of replay logs hash it: keys by code point, no spaces, 1.0 as `1.0`, UTF-8.

    It differs from canonical JSON in the order of a few keys and in how numbers are printed: whole floats keep `.0`,
    exponents begin elsewhere (those of Rust's printer), and integers may have 64 bits. For values that were read.
    """
    return "".join(_tokens(value)).encode()


def _tokens(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        opening = "{"
        for key in sorted(value):
            yield f"{opening}{encode_basestring(key)}:"
            yield from _tokens(value[key])
            opening = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        opening = "["
        for item in value:
            yield opening
            yield from _tokens(item)
            opening = ","
        yield "]" if value else "[]"
    elif isinstance(value, str):
        yield encode_basestring(value)
    elif isinstance(value, float):
        yield _printed(value)
    else:
        yield json.dumps(value)


def _printed(value: float) -> str:
    """A float with its point or its exponent: plain digits from 1e-5 to below 1e16."""
    mantissa, _, exponent = repr(value).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if 0 < point <= 16:
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -5 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e{point - 1}"
