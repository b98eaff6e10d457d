"""Response bodies: read as they come, never past a limit, also when they are compressed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

from reenact.errors import JsonSyntaxError, SkillError
from reenact.values.bounds import whole_number
from reenact.values.canonical import parse_json
from reenact.values.envelope import LARGEST_RESULT

if TYPE_CHECKING:
    import httpx2

ACCEPT_ENCODING = "gzip, deflate"
MAX_ANSWER_BYTES = 10_000_000
"""Of a model's answer, unpacked."""
MAX_STREAM_BYTES = 100_000_000
"""Of a model's answer that comes as events: each carries some hundred bytes for a word."""
MAX_EVENT_BYTES = 1_000_000
_PARTS = (b"[", b"{", b",")
MOST_PARTS = 7_000_000
"""Brackets and commas of JSON that is parsed, more than `DEFAULT_MAX_BYTES` can hold: each may become sixty bytes."""
CHUNK = 65_536
BodyFormat = Literal["json", "text", "base64", "empty"]
_CHARSETS = """
    utf-8 utf8 us-ascii ascii utf-16 utf-16le utf-16be utf-32 utf-32le utf-32be
    iso-8859-1 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-7 iso-8859-8 iso-8859-9 iso-8859-10
    iso-8859-11 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16 latin1 latin-1 cp1252
    windows-1250 windows-1251 windows-1252 windows-1253 windows-1254 windows-1255 windows-1256 windows-1257
    windows-1258 koi8-r koi8-u macintosh ibm866 tis-620
    gbk gb2312 gb18030 big5 big5-hkscs euc-jp iso-2022-jp shift-jis sjis euc-kr
"""
CHARSETS = frozenset(_CHARSETS.split())
"""What texts on the web are written in, each read in linear time. Python's other codecs are not for strangers to name:
some are no charsets (rot13, idna), and punycode takes the square of the length."""


class _Inflater:
    """Decompresses what a server declared, and yields never more than it is asked for."""

    def __init__(self, encoding: str) -> None:
        self._zlib = _new_inflater() if encoding else None
        self.left = b""
        """What was fed and not used."""

    def feed(self, data: bytes, most: int) -> tuple[bytes, bool]:
        """Up to `most` bytes, and whether there would have been more."""
        if self._zlib is None:
            self.left = data[most:]
            return data[:most], len(data) > most
        output = self.left = b""
        try:
            while data and len(output) < most:
                output += self._zlib.decompress(data, most - len(output))
                data = self._zlib.unconsumed_tail
                if self._zlib.eof and self._zlib.unused_data:  # gzip bodies may have several members
                    data = self._zlib.unused_data
                    self._zlib = _new_inflater()
        except zlib.error as error:
            raise SkillError.of("ERR_DESERIALIZATION_FAILED", "the compressed body is damaged") from error
        self.left = data
        return output, bool(data)

    def check_complete(self) -> None:
        if self._zlib is not None and not self._zlib.eof:
            raise SkillError.of("ERR_DESERIALIZATION_FAILED", "the compressed body ends too early")


def _new_inflater() -> zlib._Decompress:
    # 32 lets zlib tell gzip from deflate by itself.
    return zlib.decompressobj(zlib.MAX_WBITS | 32)


async def read_body(response: httpx2.Response, max_bytes: int) -> bytes:
    """The whole body, or `ERR_STORAGE_QUOTA_EXCEEDED` as soon as it is known to be larger than `max_bytes`, or than
    any result that can be recorded."""
    max_bytes = min(max_bytes, LARGEST_RESULT)
    declared = response.headers.get("content-length", "")
    length = whole_number(declared)
    if length is not None and length > max_bytes and response.request.method != "HEAD":
        raise _too_large(max_bytes)
    inflater = _Inflater(_encoding(response))
    parts: list[bytes] = []
    size = 0
    async for raw in response.aiter_raw():
        part, more = inflater.feed(raw, max_bytes - size + 1)
        parts.append(part)
        size += len(part)
        if size > max_bytes or more:
            raise _too_large(max_bytes)
    if parts:
        inflater.check_complete()
    return b"".join(parts)


class BoundedAnswer:
    """The body of an answer that a library will read: unpacked here, and never more than it may be.

    A stream of events may be long, since nobody keeps it whole; each event may not. `refused` says what was wrong:
    the library makes an error of its own of whatever its reading raises.
    """

    def __init__(self) -> None:
        self.refused: SkillError | None = None

    async def parts(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        try:
            async for part in self._unpacked(response):
                yield part
        except SkillError as error:
            self.refused = error
            raise

    async def _unpacked(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        events = str(response.headers.get("content-type", "")).lower().startswith("text/event-stream")
        inflater, left = _Inflater(_encoding(response)), MAX_STREAM_BYTES if events else MAX_ANSWER_BYTES
        event, before, some = 0, b"", False
        async for raw in response.aiter_raw(CHUNK):
            some, more, data = True, True, raw
            while more:
                part, more = inflater.feed(data, CHUNK)
                data = inflater.left
                left, event = left - len(part), event + len(part)
                if left < 0:
                    raise _too_large(MAX_STREAM_BYTES if events else MAX_ANSWER_BYTES)
                if events and (ends := _end_of_event(before + part)):
                    event = len(before + part) - ends
                if events and event > MAX_EVENT_BYTES:
                    raise _too_large(MAX_EVENT_BYTES)
                before = part[-3:]
                yield part
        if some:
            inflater.check_complete()


def _end_of_event(data: bytes) -> int:
    """Where what follows the last blank line begins; 0 where there is none."""
    return max(data.rfind(blank) + len(blank) if blank in data else 0 for blank in (b"\n\n", b"\r\r", b"\r\n\r\n"))


def _encoding(response: httpx2.Response) -> str:
    encoding = str(response.headers.get("content-encoding", "")).strip().lower()
    if encoding in {"", "identity"}:
        return ""
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return encoding
    raise SkillError.of("ERR_DESERIALIZATION_FAILED", "the server used a content encoding that nobody asked for")


def _too_large(max_bytes: int) -> SkillError:
    advice = "no larger one can be recorded" if max_bytes == LARGEST_RESULT else "raise max_bytes if that is expected"
    return SkillError.of(
        "ERR_STORAGE_QUOTA_EXCEEDED",
        f"the response is larger than {max_bytes} bytes; {advice}",
        max_bytes=max_bytes,
    )


def decode_body(data: bytes, content_type: str) -> tuple[BodyFormat, Any]:
    """JSON where the server says JSON and it is JSON that can be recorded exactly, else text, else base64."""
    if not data:
        return "empty", None
    media, _, parameters = content_type.partition(";")
    media = media.strip().lower()
    if (media == "application/json" or media.endswith("+json")) and sum(map(data.count, _PARTS)) <= MOST_PARTS:
        try:
            return "json", parse_json(data)
        except JsonSyntaxError:
            pass  # duplicate keys, huge integers: the text is exact, a parsed value would not be
    try:
        text = data.decode(_charset(parameters))
        text.encode()  # some charsets can spell half of a surrogate pair, which JSON cannot hold
    except (UnicodeError, LookupError):
        return "base64", base64.b64encode(data).decode("ascii")
    return "text", text


def _charset(parameters: str) -> str:
    """The codec for the text; LookupError for a charset that is not read: its bytes are kept as they are."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            named = value.strip().strip("\"'").lower().replace("_", "-")
            if named not in CHARSETS:
                raise LookupError(named)
            return named
    return "utf-8"
