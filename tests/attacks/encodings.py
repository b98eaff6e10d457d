"""Sixty encodings of a secret, written without the code that has to find them."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import unicodedata
from collections.abc import Callable
from urllib.parse import quote, quote_plus


def folded(text: str, width: int, line_end: str = "\n") -> str:
    return line_end.join(text[at : at + width] for at in range(0, len(text), width))


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def in_units(text: str) -> str:
    data = text.encode("utf-16-be")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def quoted_printable(text: str) -> str:
    """Every second character escaped, and lines folded softly."""
    escaped = "".join(
        char if index % 2 and char.isalnum() and char.isascii() else "".join(f"={byte:02X}" for byte in char.encode())
        for index, char in enumerate(text)
    )
    return "=\r\n".join(re.findall(r"(?:=..|[^=]){1,20}", escaped))


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "JSON": in_json,
    "JSON, safe in HTML": lambda text: in_json(text).replace("<", "\\u003c").replace("&", "\\u0026"),
    "JSON, slashes escaped": lambda text: in_json(text).replace("/", "\\/"),
    "JSON, every character escaped": in_units,
    "JSON, twice": lambda text: json.dumps(json.dumps({"a": text})),
    "JSON, three times": lambda text: json.dumps(json.dumps(json.dumps([text]))),
    "encodeURIComponent": lambda text: quote(text, safe="!*'()"),
    "percent, small digits": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "a form": quote_plus,
    "percent, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "HTML, names": html.escape,
    "HTML, numbers": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "HTML, hex": lambda text: "".join(f"&#x{ord(char):x};" for char in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64url without padding": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64, one byte in": lambda text: base64.b64encode(b"x" + text.encode() + b"yy").decode(),
    "base64, folded": lambda text: folded(base64.b64encode(b"xx" + text.encode()).decode(), 32, "\r\n"),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex, large and with colons": lambda text: text.encode().hex(":").upper(),
    "hex, folded": lambda text: folded(text.encode().hex(), 32),
    "quoted-printable": quoted_printable,
    "UTF-16 read as bytes": lambda text: text.encode("utf-16-le").decode("latin-1"),
    "Python's repr of bytes": lambda text: repr(text.encode()),
    "base64, seven columns": lambda text: folded(base64.b64encode(text.encode()).decode(), 7),
    "base64, indented": lambda text: folded(base64.b64encode(b"x" + text.encode()).decode(), 7, "\r\n    "),
    "base64, soft breaks": lambda text: folded(base64.urlsafe_b64encode(text.encode()).decode(), 9, "=\r\n"),
    "base64, folded, in JSON": lambda text: json.dumps(folded(base64.b64encode(text.encode()).decode(), 5)),
    "base64 of gzip": lambda text: base64.b64encode(gzip.compress(b"found: " + text.encode(), mtime=0)).decode(),
    "base64 of latin-1": lambda text: base64.b64encode(text.encode("latin-1")).decode(),
    "base64, folded by spaces": lambda text: folded(base64.b64encode(b"x" + text.encode()).decode(), 16, " "),
    "base64, folded by returns": lambda text: folded(base64.b64encode(text.encode()).decode(), 9, "\r"),
    "base64, quoted in a letter": lambda text: folded(base64.b64encode(text.encode()).decode(), 8, "\n> "),
    "base64, far in": lambda text: folded(base64.b64encode(text.encode()).decode(), 12, "\n" + " " * 60),
    "base64, a list of lines": lambda text: json.dumps(folded(in_base64(text), 16, "|").split("|")),
    "hex of base64": lambda text: in_base64(text).encode().hex(),
    "base64 of hex": lambda text: in_base64(text.encode().hex()),
    "as in a style sheet": lambda text: "".join(f"\\{ord(char):x} " for char in text),
    "hex, in words": lambda text: folded(text.encode().hex(), 8, " "),
    "hex, folded at seven by spaces": lambda text: folded(text.encode().hex(), 7, " "),
    "hex, a list of texts": lambda text: json.dumps([f"{byte:02x}" for byte in text.encode()]),
    "hex, a list of texts with 0x": lambda text: json.dumps([f"0x{byte:02x}" for byte in text.encode()], indent=2),
    "octal, as short as can be": lambda text: "".join(f"\\{byte:o}" for byte in text.encode()),
    "octal, a list": lambda text: f"[{', '.join(f'0o{byte:o}' for byte in text.encode())}]",
    "octal, side by side": lambda text: " ".join(f"{byte:03o}" for byte in text.encode()),
    "a list of octal texts": lambda text: json.dumps([f"0o{byte:o}" for byte in text.encode()]),
    "a list of bytes, one a line": lambda text: "\n".join(map(str, text.encode())),
    "a list of bytes with signs": lambda text: json.dumps([(byte ^ 128) - 128 for byte in text.encode()]),
    "bytes by their place": lambda text: json.dumps(dict(enumerate(text.encode())), separators=(",", ":")),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base32, small, two bytes in": lambda text: base64.b32encode(b"xx" + text.encode()).decode().rstrip("=").lower(),
    "base32, folded": lambda text: folded(base64.b32encode(text.encode()).decode(), 11),
    "octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "octal, a zero first": lambda text: "".join(f"\\0{byte:03o}" for byte in text.encode()),
    "braces": lambda text: "".join(f"\\u{{{ord(char):x}}}" for char in text),
    "Python's long escapes": lambda text: "".join(f"\\U{ord(char):08x}" for char in text),
    "the old escape()": lambda text: "".join(f"%u{ord(char):04x}" for char in text),
    "percent, latin-1": lambda text: quote(text, safe="", encoding="latin-1"),
    "a list of bytes": lambda text: json.dumps(list(text.encode())),
    "a list of bytes, spread": lambda text: json.dumps(list(text.encode()), indent=4),
    "a list of bytes in hex": lambda text: ", ".join(f"0x{byte:02X}" for byte in text.encode()),
    "a list of characters": lambda text: json.dumps(list(text)),
    "a list of characters, tight": lambda text: json.dumps(list(text), separators=(",", ":"), ensure_ascii=False),
    "a list of characters, spread": lambda text: json.dumps(list(text), indent=4),
    "a list of characters, in Python": lambda text: repr(list(text)),
    "a list of characters, in JSON": lambda text: json.dumps({"a": json.dumps(list(text))}),
    "accents apart": lambda text: unicodedata.normalize("NFD", text),
    "bytes shown as characters": lambda text: text.encode().decode("latin-1"),
    "folded": lambda text: folded(text, 5, "\r\n "),
}  # fmt: skip
