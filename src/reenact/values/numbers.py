"""Numbers as ECMAScript prints them (ECMA-262, Number::toString), which RFC 8785, 3.2.2.3 asks for."""

from __future__ import annotations

from math import isfinite


def format_number(value: float) -> str:
    """The shortest decimal that reads back as `value`, in ECMAScript's notation; ValueError for NaN and infinities."""
    if not isfinite(value):
        raise ValueError("not a finite number")
    # Python and ECMAScript agree on the digits (shortest round trip); they differ in when an exponent is used.
    text = repr(value)
    if "e" not in text:
        return _without_exponent(text)
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    digits = mantissa.lstrip("-").replace(".", "")
    point = int(exponent) + 1  # where the decimal point stands, counted from the first digit
    return sign + _place_point(digits, point)


def _without_exponent(text: str) -> str:
    if not text.endswith(".0"):
        return text
    return "0" if text == "-0.0" else text[:-2]


def _place_point(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
