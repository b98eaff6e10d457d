"""The parts of a secret that come back alone: the token behind `Bearer`, the password in an address, a line of a key.

A part is hidden wherever it stands, so it must not be a word that stands everywhere. What is a password by its place is
taken from six characters on. Any other part (a user's name, the end of a path, the value of a cookie) is taken from
eight on, and only if it has a digit, or large and small letters: `production`, `localhost` or `accounts` say nothing.
What stands in the open in the same secret (its user, host or database) is not hidden for being its password too.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import pairwise
from typing import Final
from urllib.parse import unquote, unquote_plus

from reenact.errors import UsageError
from reenact.policy.secrets.patterns import name_kind
from reenact.values.canonical import parse_json

SHORTEST_KNOWN: Final = 6
"""Shorter values are left alone inside longer texts: they would be found everywhere."""
SHORTEST_PART: Final = 8
SHORTEST_LINE: Final = 16
"""A line of a key; its last one may be shorter, and tells as little."""
SCHEMES: Final = frozenset({"bearer", "basic", "token", "digest", "apikey", "negotiate", "key", "bot"})
DEEPEST: Final = 3
"""`Authorization: Bearer X`, in a document: a secret in a secret in a secret."""
PAIR: Final = re.compile(r"([^:\s/]{1,256}+):([^\s]{1,1024}+)")


def parts_of(secret: str) -> set[str]:
    """Everything that is hidden with a secret: itself, and what of it may come back alone."""
    texts = {secret, secret.strip()}
    for _ in range(DEEPEST):
        texts |= {value for text in texts for value in named_values(text)}
    found = texts | {part for text in texts for part in text_parts(text)}
    return {part for part in found if len(part) >= SHORTEST_KNOWN}


def text_parts(text: str) -> Iterator[str]:
    if "\n" not in text and text.startswith("-----BEGIN"):
        text = text.replace("\\n", "\n")  # as a key stands in a variable
    if "\n" in text:
        yield from (line.strip() for line in text.splitlines() if is_key_line(line.strip()))
    elif "://" in text:
        yield from address_parts(text)
    else:
        yield from header_parts(text)
    for _, value in document_texts(text):
        if is_telling(value) and "://" not in value:
            yield value
            yield from (line for line in value.splitlines() if is_key_line(line))
    if "=" in text and "\n" not in text:
        yield from assigned_parts(text)
    if text.startswith(("machine", "default")):
        yield from netrc_parts(text.split())


def netrc_parts(words: list[str]) -> Iterator[str]:
    """`machine HOST login USER password PASSWORD`, on one line or on many, for one host or for many."""
    for name, word in pairwise(words):
        value = word.strip('"')
        if name == "password" or (name in ("login", "account") and is_telling(value)):
            yield value


def header_parts(text: str) -> Iterator[str]:
    """`Bearer X`, `Basic …`, `user:password`."""
    scheme, _, rest = text.partition(" ")
    rest = rest.strip()
    if rest and scheme.rstrip(":").lower() in SCHEMES:
        yield rest
        if scheme.lower() == "basic":
            yield from pair_parts(*decoded(rest).partition(":")[::2])  # whatever is in it, spaces too
        else:
            yield from written_pair(rest)
    else:
        yield from written_pair(text)


def named_values(text: str) -> Iterator[str]:
    """`Authorization: X`, `TOKEN = X`, `{"client": {"secret": "X"}}`: each is a secret again, with parts of its own."""
    for line in text.splitlines():
        for sign in (": ", "="):
            name, found, value = line.partition(sign)
            value = value.strip().strip("'\"")
            if found and is_credential(name.strip().removeprefix("export "), value):
                yield from (value, unquote(value))
    yield from (value for name, value in document_texts(text) if is_credential(name, value))


def is_credential(name: str, value: str) -> bool:
    """By its name, or an address with somebody's password in it."""
    return name_kind(name) is not None or ("://" in value and "@" in value)


def written_pair(text: str) -> Iterator[str]:
    pair = PAIR.fullmatch(text)
    if pair is not None:
        yield from pair_parts(pair[1], pair[2])


def pair_parts(user: str, password: str) -> Iterator[str]:
    yield b64encode(f"{user}:{password}".encode("utf-8", "surrogatepass")).decode()
    if user != password:
        yield password
    if is_telling(user):
        yield user


def address_parts(text: str) -> Iterator[str]:
    """A server knows its own path, not its name: what leads to it is secret, and so is what opens it."""
    scheme, _, rest = text.partition("://")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    user_and_password, _, host = authority.rpartition("@")
    user, _, password = user_and_password.partition(":")
    in_the_open = {scheme, user, host.partition(":")[0], path}
    if password and password not in in_the_open:
        yield from {user_and_password, password, unquote(password)}
        yield from {f"{unquote(user)}:{unquote(password)}"}
        yield b64encode(f"{unquote(user)}:{unquote(password)}".encode("utf-8", "surrogatepass")).decode()
    if is_telling(user):
        yield from {user, unquote(user)}
    path = path.strip("/")
    if any(map(is_telling, path.split("/"))):
        yield from {path, unquote(path)}
    last = path.rpartition("/")[2]
    if is_telling(last):
        yield from {last, unquote(last)}
    for value in (*query_values(query), *query_values(fragment)):
        yield from {value, unquote(value), unquote_plus(value)}


def query_values(query: str) -> Iterator[str]:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if value and (name_kind(name) is not None or is_telling(value)):
            yield value


def assigned_parts(text: str) -> Iterator[str]:
    """Cookies, `Server=…;Password=…`, `host=… password=…`: values by their names."""
    for separator in (";", ",", None):
        for piece in text.split(separator):
            name, sign, value = piece.strip().partition("=")
            value = value.strip("'\",")
            if sign and " " not in name and (name_kind(name) is not None or is_telling(value)):
                yield from {value, unquote(value)}


def document_texts(text: str) -> Iterator[tuple[str, str]]:
    """Of a key that is a JSON document: its texts, however deep, with their names."""
    if text[:1] not in ("{", "["):
        return
    try:
        waiting = [parse_json(text.encode())]
    except (UsageError, UnicodeError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            yield from ((name, item) for name, item in value.items() if isinstance(item, str))
            waiting += value.values()


def is_key_line(line: str) -> bool:
    return len(line) >= SHORTEST_LINE and not line.startswith("-----") and ": " not in line


def is_telling(part: str) -> bool:
    """Whether a part is no word: long enough, and not of one kind of letters alone."""
    if len(part) < SHORTEST_PART or part.isdigit():
        return False
    return any(map(str.isdigit, part)) or not (part.islower() or part.isupper() or part.istitle())


def decoded(text: str) -> str:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
    except ValueError:
        return ""
