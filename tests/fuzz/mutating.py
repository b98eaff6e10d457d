"""Texts that nobody would send in good faith: made of good ones by cutting, repeating, nesting and putting in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 200_000
TOKENS: tuple[bytes, ...] = tuple(
    token.encode("utf-8", "surrogatepass")
    for token in (
        *"{}[]()<>\"'`,:;#&*!|%@~/\\.-+=_$? \t\n\r\0",
        *('""', "[]", "{}", "null", "true", "{{", "}}", "{{a.b}}", "{{ ", "$secret", "$sealed", "$commit", "$$"),
        *("\\u0000", "\\ud800", "\\udc00\\ud800", "\ud800", "\ufeff", "\u2028", "\U0001f600", "é", "²", "٣"),
        *("0", "-0", "1e308", "1e999", "1e-999", "-1", "9007199254740993", "9" * 400, "1" * 5000, "0x" + "f" * 400),
        *("NaN", "Infinity", "1_000", "0o7", "1:59:59", "2026-01-01T00:00:00.000Z", "..", "~0", "~1", "/", "//"),
        *("- ", "? ", ": ", "&a ", "*a ", "<<: ", "!!binary ", "!<!>", "|-\n", ">+\n", "--- ", "%YAML 1.1\n", "```"),
        *("eyJ", "sk-", "Bearer ", "://", "password=", "-----BEGIN PRIVATE KEY-----", "0.0.0", "1.0.0-a.1+b"),
        *("250-", "250 ", "\r\n", "data: ", "[DONE]", "charset=punycode", "utf-7", "idna", "gzip", "../", "x" * 300),
        *('{"a":', "[", '"a":1,', "a.", "a = ", "[a.b]\n", '{"$ref":"#"}', '{"pattern":"(a+)+$"}', "module:function"),
    )
)
OPENINGS = (b"[", b"{", b'{"a":', b"(", b"- ", b"? ", b"a: ", b"[[", b"{a=", b"not ", b"-", b"!a ", b"a.")

Mutation = Callable[[Random, bytes], bytes]


def made(random: Random, corpus: Sequence[bytes]) -> bytes:
    """One input: something of the corpus, changed a few times; now and then something of tokens alone."""
    data = random.choice(corpus)
    if random.random() < 0.1:
        data = b"".join(random.choices(TOKENS, k=random.randint(1, 40)))
    for _ in range(min(8, int(random.expovariate(0.5)) + (random.random() < 0.95))):
        data = random.choice(MUTATIONS)(random, data)[:MOST_BYTES]
        if random.random() < 0.1:
            data = crossed(random, data, random.choice(corpus))[:MOST_BYTES]
    return data


def span(random: Random, data: bytes, longest: int = 64) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + int(random.expovariate(4 / longest)))


def flipped(random: Random, data: bytes) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def cut(random: Random, data: bytes) -> bytes:
    start, end = span(random, data)
    return data[:start] + data[end:]


def ended(random: Random, data: bytes) -> bytes:
    return data[: random.randint(0, len(data))]


def with_token(random: Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(TOKENS) + data[at:]


def instead(random: Random, data: bytes) -> bytes:
    start, end = span(random, data, 16)
    return data[:start] + random.choice(TOKENS) + data[end:]


def moved(random: Random, data: bytes) -> bytes:
    start, end = span(random, data)
    at = random.randint(0, len(data))
    return data[:at] + data[start:end] + data[at:]


def pumped(random: Random, data: bytes) -> bytes:
    """A small part, again and again: what finds a loop within a loop."""
    start, end = span(random, data, 12)
    part = random.choice((data[start:end], random.choice(TOKENS), random.choice(TOKENS) + random.choice(TOKENS)))
    most = random.choice((20, 300, 3_000, 50_000, MOST_BYTES))
    return data[:start] + part * (most // max(1, len(part))) + data[end:]


def nested(random: Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(OPENINGS) * random.choice((3, 99, 300, 1_001, 20_000)) + data[at:]


def crossed(random: Random, data: bytes, other: bytes) -> bytes:
    start, end = span(random, other, 400)
    at = random.randint(0, len(data))
    return data[:at] + other[start:end] + data[at:]


MUTATIONS: tuple[Mutation, ...] = (
    flipped,
    flipped,
    cut,
    cut,
    ended,
    with_token,
    with_token,
    instead,
    moved,
    pumped,
    nested,
)
