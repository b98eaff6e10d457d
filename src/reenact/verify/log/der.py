"""DER (X.690), as far as a time stamp needs it: values within values, each with its tag and its bytes."""

from __future__ import annotations

from typing import NamedTuple

from reenact.errors import DamagedRecord

INTEGER, OCTETS, OID, SEQUENCE, SET, TIME = 0x02, 0x04, 0x06, 0x30, 0x31, 0x18
BOOLEAN, NULL = 0x01, 0x05


class Value(NamedTuple):
    tag: int
    content: bytes
    raw: bytes
    """With its tag and length."""

    def parts(self, tag: int | None = None) -> list[Value]:
        """What it is made of; DamagedRecord where it is of another kind."""
        if tag is not None and self.tag != tag:
            raise DamagedRecord("a time stamp is not built as RFC 3161 says")
        found, at = [], 0
        while at < len(self.content):
            value = read_value(self.content, at)
            found.append(value)
            at += len(value.raw)
        return found

    def number(self) -> int:
        if self.tag != INTEGER or not self.content:
            raise DamagedRecord("a time stamp has no number where RFC 3161 has one")
        return int.from_bytes(self.content, "big", signed=True)


def read_value(data: bytes, at: int = 0) -> Value:
    """The value that begins there: a tag of one byte, a length in its shortest form, and its bytes."""
    if len(data) - at < 2 or data[at] & 0x1F == 0x1F:
        raise DamagedRecord("a time stamp is no DER")
    length, begin = data[at + 1], at + 2
    if length > 0x80:
        count = length & 0x7F
        raw = data[begin : begin + count]
        if count > 4 or len(raw) != count or raw[0] == 0 or int.from_bytes(raw, "big") < 0x80:
            raise DamagedRecord("a time stamp is no DER")
        length, begin = int.from_bytes(raw, "big"), begin + count
    elif length == 0x80:
        raise DamagedRecord("a time stamp is no DER")
    if len(data) - begin < length:
        raise DamagedRecord("a time stamp was cut")
    return Value(data[at], data[begin : begin + length], data[at : begin + length])


def whole(data: bytes) -> Value:
    """The one value that all of the bytes are."""
    value = read_value(data)
    if len(value.raw) != len(data):
        raise DamagedRecord("something follows the time stamp")
    return value


def write(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def write_number(number: int) -> bytes:
    """A number that is not negative."""
    return write(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))
