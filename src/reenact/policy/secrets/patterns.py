"""Secrets by their look and by the name before them: shapes of well-known keys, `Bearer …`, `password=…`, field names.

Every pattern is linear. None begins with a repetition, and what may be long is taken whole by the first match that
meets it (`eyJ…`), whether a secret comes of it or not: nothing is scanned again from a place inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

PIECE: Final = 1 << 16
"""Longer texts are searched piece by piece: between two of them others may work, and the time may be up."""
OVERLAP: Final = 2048
"""What a match needs to see to be recognized; how far it then goes is asked again, of the whole text."""

between_pieces: ContextVar[Callable[[], None] | None] = ContextVar("between_pieces", default=None)
"""Asked between two pieces of a long search; it raises when the time is up."""

# Every alternative begins with a letter of its own, so that the search skips to where one may begin.
SHAPES: Final = re.compile(
    r"""
      sk-[A-Za-z0-9_-]{20,}                                # model providers
    | sk_(?:live|test)_[A-Za-z0-9]{16,}                    # payment providers
    | rk_(?:live|test)_[A-Za-z0-9]{16,}
    | pk_(?:live|test)_[A-Za-z0-9]{16,}
    | gh[pousr]_[A-Za-z0-9]{36,} | github_pat_[A-Za-z0-9_]{50,}
    | glpat-[A-Za-z0-9_-]{20,}
    | xox[abposr]-[A-Za-z0-9-]{10,}
    | AKIA[0-9A-Z]{16} | ASIA[0-9A-Z]{16}
    | AIza[0-9A-Za-z_-]{35}
    | SG\.[A-Za-z0-9_-]{16,128}\.[A-Za-z0-9_-]{16,128}
    | npm_[A-Za-z0-9]{36}
    | eyJ[A-Za-z0-9_-]{8,}(?:(?:\.[A-Za-z0-9_-]{8,}){2,4})?   # JWT; without its dots it is none
    | -----BEGIN[ A-Z]{0,40}PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ A-Z]{0,40}PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE,
)
INTRODUCED: Final = re.compile(
    r"""
      (?:[Bb]earer|BEARER|[Bb]asic|BASIC)[ ]{1,4}([A-Za-z0-9._~+/-]{16,}=*)
    | ://([^/\s:@]{0,256}:[^/\s@]{1,1024})(?=@)           # user:password in an address
    | (?:machine(?:[ \t\r\n]|\\[nrt]){1,64}+[^\s\\"]{1,256}+|(?<![ ])default)  # as in ~/.netrc, on one line or many
      (?:(?:[ \t\r\n]|\\[nrt]){1,64}+(?:login|user|account)(?:[ \t\r\n]|\\[nrt]){1,64}+[^\s\\"]{1,256}+){1,3}+
      (?:[ \t\r\n]|\\[nrt]){1,64}+password(?:[ \t\r\n]|\\[nrt]){1,64}+((?:[^\s\\"]|\\[^nrt]|"[^"\r\n]{1,256}+"){1,256}+)
    | machine(?:[ \t\r\n]|\\[nrt]){1,64}+[^\s\\"]{1,256}+                  # the password first
      (?:[ \t\r\n]|\\[nrt]){1,64}+password(?:[ \t\r\n]|\\[nrt]){1,64}+((?:[^\s\\"]|\\[^nrt]|"[^"\r\n]{1,256}+"){1,256}+)
      (?=(?:[ \t\r\n]|\\[nrt]){1,64}+(?:login|user|account))
    """,
    re.VERBOSE,
)
"""Secrets by what stands before them, which is kept."""
BY_NAME: Final = re.compile(
    r"""
    (?i:token|secret|password|passwd|passphrase|pwd|(?:api|access|secret|private|account|shared)[-_ ]?key|sig|signature)
    (?:\\{0,8}+["'])?+\s{0,3}+([=:])\s{0,3}+(?:\\{0,8}+["'])?+
    ([^\s"'\\&<>,;]{6,}+)
    """,
    re.VERBOSE,
)
"""`password=…`, `pwd: …`, `?token=…`, `"secret": "…"` inside a text: a name, and what it is given."""
HEADERS: Final = re.compile(
    r"""
      (?i:cookie)(?:\\{0,8}+["'])?+\s?+:\s?+(?:\\{0,8}+["'])?+([^\r\n"'\\]{6,}+)
    | (?i:authorization)(?:\\{0,8}+["'])?+\s?+:\s?+(?:\\{0,8}+["'])?+(?:[A-Za-z-]{1,16}+[ ]{1,4}+)?([^\s"'\\]{6,}+)
    """,
    re.VERBOSE,
)
"""`Cookie: …` to the end of its line, `Authorization: …`."""
NAME_OF_ONE: Final = re.compile(r"[A-Z][A-Z0-9]{0,63}(?:_[A-Z0-9]{1,63}){1,16}")
"""`SHOP_TOKEN`: what a secret is called, and not what it is."""

SUSPECT: Final = re.compile(
    rb"sk-|sk_|rk_|pk_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|SG\.|npm_|eyJ|-----BEGIN"
    rb"|Bearer |bearer |BEARER |Basic |basic |BASIC |://|password[\s\\]"
)
"""Whatever has the shape of a secret holds one of these."""
RARE: Final = re.compile(rb"[-_=/.wxABbJS]")
"""Each of them has one of these characters, which many values have not."""
NAMED: Final = re.compile(
    rb"(?i:token|secret|password|passwd|passphrase|pwd|key|sig|signature|cookie|authorization)"
    rb"(?:\\{1,16}+[\"']|')?+(?:[ \t\r\n]|\\[nrt]){0,3}+[=:]"
)
"""The same of what stands behind a name. In JSON a name that is a field's has its quote before the colon."""

GIVEN: Final = re.compile(rb"[=:](?:(?<=[nNtTdDeEyYgG'\s].)|(?<=\\[\"'ntr].))")
"""Something is given to a name; in most values nothing is."""

PATTERNS: Final = (SHAPES, INTRODUCED, BY_NAME, HEADERS, NAME_OF_ONE, SUSPECT, RARE, NAMED, GIVEN)
"""All that are put to foreign text here: each is timed by a test on what would be worst for it."""

SECRET_NAMES: Final = frozenset(
    {
        "authorization", "proxyauthorization", "cookie", "setcookie", "cookies", "xamzsecuritytoken", "smtppassword",
        "password", "passwd", "passphrase", "pwd", "apikey", "accesskey", "secretkey", "privatekey", "clientsecret",
    }
)  # fmt: skip
"""Names of fields that hold a secret whatever is in them, in any spelling: small, kebab, snake, camel."""
SECRET_TEXTS: Final = frozenset(
    {"token", "secret", "sessionkey", "sessioncookie", "credential", "credentials", "jwt", "otp", "sig"}
)
"""Names of fields whose texts are secret; a number, a flag or an object under one is what it seems to be."""
STRONG_ENDINGS: Final = ("password", "passwd", "passphrase", "pwd", "apikey", "accesskey", "secretkey", "privatekey")
TEXT_ENDINGS: Final = ("token", "secret", "signingkey", "encryptionkey", "accountkey", "sharedkey", "connectionstring")
NO_SECRET_TOKENS: Final = (
    "page", "next", "previous", "prev", "continuation", "continue", "cursor", "sync", "resume", "start", "end", "stop",
    "first", "last", "eos", "bos", "pad", "unk", "mask", "cls", "sep", "special", "max", "min", "per", "cancellation",
)  # fmt: skip
"""`next_page_token`, `eos_token`: what such a token leads to is no secret."""
LONGEST_NAME: Final = 40
NO_VALUES: Final = frozenset(
    {"required", "optional", "string", "undefined", "redacted", "missing", "invalid", "expired", "hidden", "unknown"}
)


def plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "").replace(".", "")


def name_kind(name: str) -> str | None:
    """`any` where a field of this name holds a secret whatever is in it, `text` where only a text is one, else None."""
    bare = plain(name)
    if bare in SECRET_NAMES or bare.endswith(STRONG_ENDINGS):
        return "any"
    if bare in SECRET_TEXTS:
        return "text"
    if bare.endswith(TEXT_ENDINGS) and not bare.removesuffix("token").endswith(NO_SECRET_TOKENS):
        return "text"
    return None


def search(pattern: re.Pattern[bytes], content: bytes) -> bool:
    """As `pattern.search`, piece by piece. What is looked for is short."""
    if len(content) <= PIECE:
        return pattern.search(content) is not None
    for start in range(0, len(content), PIECE):
        pause()
        if pattern.search(content, start, start + PIECE + OVERLAP) is not None:
            return True
    return False


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """As `pattern.finditer`, piece by piece."""
    if len(text) <= PIECE:
        yield from pattern.finditer(text)
        return
    at = 0
    while at < len(text):
        pause()
        found = pattern.search(text, at, at + PIECE + OVERLAP)
        if found is None or found.start() >= at + PIECE:
            at += PIECE
            continue
        whole = pattern.match(text, found.start()) or found
        yield whole
        at = max(whole.end(), found.start() + 1)


def pause() -> None:
    ask = between_pieces.get()
    if ask is not None:
        ask()


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where something stands in a text that looks like a secret; in no order, and one may lie in another."""
    for match in matches(SHAPES, text):
        if is_shape(match[0]):
            yield match.span()
    for match in matches(INTRODUCED, text):
        yield match.span(match.lastindex or 0)
    if "=" in text or ":" in text:
        for match in matches(BY_NAME, text):
            if names_a_secret(match):
                yield match.span(2)
        for match in matches(HEADERS, text):
            yield match.span(match.lastindex or 0)


def is_shape(text: str) -> bool:
    return not text.startswith("eyJ") or "." in text


def is_secret_alone(text: str) -> bool:
    """Whether a text is nothing but a secret by its look."""
    return SHAPES.fullmatch(text) is not None and is_shape(text)


def names_a_secret(match: re.Match[str]) -> bool:
    """Whether `name=value` gives a secret away: not `next_page_token=`, a placeholder, or code that passes one on.

    Behind a colon people write prose too (`token: required`): there a value needs a digit.
    """
    value, sign = match[2], match[1]
    if value[0] in "$%{<[*(" or "(" in value or "{{" in value or value.lower() in NO_VALUES:
        return False
    if name_kind(value[:100]) is not None or (sign == ":" and not any(map(str.isdigit, value[:1000]))):
        return False
    return name_kind(name_before(match.string, match.start()) + match[0].partition(sign)[0].strip("\\\"' ")) is not None


def name_before(text: str, end: int) -> str:
    """What belongs to a name before its last word."""
    start = end
    while start > max(0, end - LONGEST_NAME) and (text[start - 1].isalnum() or text[start - 1] in "-_."):
        start -= 1
    return text[start:end]
