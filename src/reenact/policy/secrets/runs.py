"""Runs of characters that say bytes: base64, base32, hex, lists of numbers or characters; what those may be.

A run may begin before the secret does, and nobody says where, so it is read at every alignment there is.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from base64 import b32encode, b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

URL_ALPHABET: Final = str.maketrans("+/", "-_")
STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")
BASE32_DIGITS: Final = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz234567",
    "0123456789ABCDEFGHIJKLMNOP0123456789ABCDEFGHIJKLMNOPQRSTUV",
)
GZIP: Final = b"\x1f\x8b\x08"
ZLIB: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
LONGEST_UNPACKED: Final = 1 << 20
"""Of what is compressed, so many bytes are looked at."""
LONG_WORD: Final = 12
LONG_ENOUGH: Final = 10
"""Bytes from which on a secret is seen in base32 by the length of the run alone."""

BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}+")
BASE32: Final = re.compile(r"[A-Z2-7]{10,}+|[a-z2-7]{10,}+")
HEX_RUN: Final = re.compile(r"[0-9A-Fa-f](?:[\"':,;\s\\\-]{0,24}+(?:0[xX]|\\x)?+[0-9A-Fa-f]){11,}+")
NO_HEX: Final = re.compile(r"0[xX](?=[0-9A-Fa-f])|\\x|[^0-9A-Fa-f]")
NUMBERS_RUN: Final = re.compile(
    r"-?+[0-9]{1,3}+(?:[\"',;\s]{1,24}+(?:[0-9]{1,6}+\":\s{0,4}+)?+(?:0o)?+-?+[0-9]{1,3}+){5,}+"
)
"""A list in decimal or octal; of `{"0":115,"1":51}` the keys do not count."""
NUMBER: Final = re.compile(r"-?+[0-9]++(?!\":)")
QUOTED: Final = r"[\"'](?:(?:\\u[0-9A-Fa-f]{4}){1,2}+|\\x[0-9A-Fa-f]{2}|\\U[0-9A-Fa-f]{8}|\\?+.)[\"']"
QUOTED_RUN: Final = re.compile(rf"{QUOTED}(?:[,; \t]\s{{0,16}}+{QUOTED}){{5,}}+")
QUOTED_ONE: Final = re.compile(QUOTED)
PATTERNS: Final = (BASE64_RUN, BASE32, HEX_RUN, NO_HEX, NUMBERS_RUN, NUMBER, QUOTED_RUN, QUOTED_ONE)


def spellings(text: str) -> set[str]:
    """A text with its accents apart or not, and its bytes taken for characters, as careless programs show them."""
    if text.isascii():
        return {text}
    shown = text.encode("utf-8", "surrogatepass").decode("latin-1")
    return {text, shown, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))}


def cased(text: str) -> set[str]:
    """A text in large and in small letters, as names of hosts and headers come back; not of what may be a word."""
    return {text.lower(), text.upper()} if len(text) >= LONG_WORD and not text.isalpha() else set()


def byte_needles(text: str) -> Iterator[bytes]:
    """The bytes that stand for a text. UTF-16 of what latin-1 can say is known by the bytes between its zeros."""
    yield text.encode("utf-8", "surrogatepass")
    if text.isascii():
        return
    try:
        yield text.encode("latin-1")
    except UnicodeEncodeError:
        yield text.encode("utf-16-le", "surrogatepass")
        yield text.encode("utf-16-be", "surrogatepass")


def forms(text: str) -> Iterator[str]:
    """How a secret looks inside a longer text where it stands in one piece: as it is, in a URL, in hex, in base64."""
    yield text
    for encode in (quote, quote_plus):
        for safe in ("", "/"):
            yield encode(text, safe=safe, errors="surrogatepass")
    for charset in ("utf-8", "utf-16-le", "utf-16-be"):
        data = text.encode(charset, "surrogatepass")
        yield data.hex()
        yield data.hex().upper()
        yield from base64_forms(data)
        if len(data) < LONG_ENOUGH:
            yield from base32_forms(data)


def base64_forms(data: bytes) -> Iterator[str]:
    """The characters that stand for the secret alone, wherever it begins in what was encoded."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        core = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        if len(core) >= 6:
            yield core
            yield core.translate(URL_ALPHABET)


def base32_forms(data: bytes) -> Iterator[str]:
    for before in range(5):
        core = b32encode(bytes(before) + data).decode()[-(-8 * before // 5) : 8 * (before + len(data)) // 5]
        yield core
        yield core.lower()


def word_readings(run: str, shortest: int) -> Iterator[bytes]:
    """What a run of letters and digits may say: it may begin at any character, the ones before it being others."""
    standard = run.translate(STANDARD_ALPHABET)
    for start in range(4):
        end = start + (len(run) - start) // 4 * 4
        rest = standard[end:]
        if end > start or len(rest) > 1:
            yield b64decode(standard[start:end] + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""))
    for found in BASE32.finditer(run):
        if len(found[0]) * 5 >= shortest * 8:
            yield from base32_readings(found[0])


def base32_readings(run: str) -> Iterator[bytes]:
    number = int(run.translate(BASE32_DIGITS), 32)
    size = (5 * len(run) + 7) // 8
    for shift in range(8):
        yield (number >> shift).to_bytes(size, "big")


def hex_readings(run: str, _: int) -> Iterator[bytes]:
    digits = NO_HEX.sub("", run)
    for odd in (0, 1):
        yield bytes.fromhex(digits[odd : odd + (len(digits) - odd) // 2 * 2])


def number_readings(run: str, _: int) -> Iterator[bytes]:
    numbers = NUMBER.findall(run)
    yield from (numbered(int(each) for each in numbers), numbered(int(each, 8) for each in numbers if is_octal(each)))


def is_octal(digits: str) -> bool:
    return "8" not in digits and "9" not in digits


def numbered(numbers: Iterable[int]) -> bytes:
    """Bytes by their numbers, with a sign or without."""
    return bytes(each & 255 if -128 <= each < 256 else 0 for each in numbers)


def quoted_readings(run: str, _: int) -> Iterator[bytes]:
    """Its characters side by side, escapes among them: those are read as those of any text are."""
    yield "".join(each[1:-1] for each in QUOTED_ONE.findall(run)).encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> bytes:
    """What gzip or zlib packed; nothing where it is neither. At most `LONGEST_UNPACKED` bytes of it."""
    at = data.find(GZIP)
    if at < 0 and not data.startswith(ZLIB):
        return b""
    try:
        return zlib.decompressobj(47).decompress(data[max(at, 0) :], LONGEST_UNPACKED)
    except zlib.error:
        return b""
