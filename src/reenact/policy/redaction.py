"""Redaction: what is a secret in a value, by the name of its field, by its shape, or because it was handed out.

Pure: the same value and rules give the same places. `{"$secret": NAME}` is a reference and `{"$sealed": TEXT}` is
encrypted already: neither is touched. Most values hold nothing that could be taken for a secret, and a quick look at
their canonical bytes and field names shows it (`SecretRules.passes`).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from reenact.contracts.references import SCALARS
from reenact.errors import UsageError
from reenact.values.canonical import canonicalize

REDACTED: Final = "[redacted]"
SHORTEST_KNOWN: Final = 6
"""Shorter values are left alone inside longer texts: they would be found everywhere."""
SHORTEST_WHOLE: Final = 4
"""A text that is nothing but a secret is one from this length on."""

SECRET_NAMES: Final = frozenset(
    {
        "authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "apikey", "xauthtoken", "password",
        "passwd", "clientsecret", "secretkey", "privatekey", "accesstoken", "refreshtoken", "idtoken", "sessiontoken",
        "authtoken", "bearertoken", "smtppassword", "awssecretaccesskey", "xamzsecuritytoken", "xgoogapikey",
        "xvaulttoken", "privatetoken", "xcsrftoken", "xaccesstoken",
    }
)  # fmt: skip

# Every alternative begins with a letter of its own, so that the search skips to where one may begin: a response may
# have 50 MB.
SHAPES: Final = re.compile(
    r"""
      sk-[A-Za-z0-9_-]{20,}                                 # model providers
    | sk_(?:live|test)_[A-Za-z0-9]{16,}                     # payment providers
    | rk_(?:live|test)_[A-Za-z0-9]{16,}
    | pk_(?:live|test)_[A-Za-z0-9]{16,}
    | gh[pousr]_[A-Za-z0-9]{36,} | github_pat_[A-Za-z0-9_]{50,}
    | glpat-[A-Za-z0-9_-]{20,}
    | xox[abposr]-[A-Za-z0-9-]{10,}
    | AKIA[0-9A-Z]{16} | ASIA[0-9A-Z]{16}
    | AIza[0-9A-Za-z_-]{35}
    | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
    | npm_[A-Za-z0-9]{36}
    | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}   # JWT
    | -----BEGIN[ A-Z]*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ A-Z]*PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE,
)
INTRODUCED: Final = re.compile(
    r"""
      Bearer[ ][A-Za-z0-9._~+/-]{16,}=* | bearer[ ][A-Za-z0-9._~+/-]{16,}=*
    | Basic[ ][A-Za-z0-9+/]{16,}=* | basic[ ][A-Za-z0-9+/]{16,}=*
    | ://[^/\s:@]+:[^/\s:@]+(?=@)                          # user:password in an address
    | [?&](?:api_?key|access_token|client_secret|password)=[^&\#\s"'\[]{6,}
    """,
    re.VERBOSE,
)
"""Secrets by what stands before them, which is kept."""
INTRODUCTION: Final = re.compile(r"://|\w+ |[?&]\w+=")

SUSPECT: Final = re.compile(
    rb"sk-|sk_|rk_|pk_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|SG\.|npm_|eyJ|-----BEGIN"
    rb"|Bearer |bearer |Basic |basic |://|apikey=|api_key=|access_token=|client_secret=|password="
)
"""Whatever has the shape of a secret holds one of these."""
RARE: Final = re.compile(rb"[-_=/.xABbJS]")
"""Each of them has one of these characters, which many values have not."""
PLAIN_TEXT: Final = re.compile(r"[ !#-\[\]-~]*")
"""What JSON writes as it is."""
JSON_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
TYPE_KEYWORDS: Final = frozenset(
    {
        "type", "anyOf", "title", "description", "format", "default", "minLength", "maxLength", "minimum", "maximum",
    }
)  # fmt: skip
"""What JSON Schema says about a parameter without quoting a value of it."""
MOST_SHAPES: Final = 1024
LARGEST_SHAPE: Final = 64

Replace = Callable[[object], object]
"""Given a secret (a text, or the whole value of a secret field), what stands in its place."""


class SecretRules:
    """Which values are secret. `fields` are names, or JSON pointers from the top of a value."""

    def __init__(self, known: Iterable[str] = (), fields: Iterable[str] = ()) -> None:
        known, fields = list(known), list(fields)
        self._names = SECRET_NAMES | {plain(field) for field in fields if not field.startswith("/")}
        self._pointers = frozenset(field for field in fields if field.startswith("/"))
        self._whole = frozenset(secret for secret in known if len(secret) >= SHORTEST_WHOLE)
        self._forms = tuple(sorted({form for secret in known for form in forms(secret)}, key=longest_first))
        self._known_bytes = tuple({text_bytes(text) for text in (*known, *map(str.strip, known), *self._forms) if text})
        self._judged: dict[tuple[str, ...], bool] = {}

    def passes(self, value: object, content: bytes) -> bool:
        """Whether a quick look shows that nothing in `value`, whose canonical bytes are `content`, can be a secret.

        It may be wrong in one direction only: what passes, `apply` gives back untouched; what does not may still turn
        out to be harmless.
        """
        if self._pointers or (RARE.search(content) is not None and SUSPECT.search(content) is not None):
            return False
        if self._known_bytes and any(known in content for known in self._known_bytes):
            return False
        return type(value) is str or not self._has_secret_name(value)

    def passes_text(self, text: str) -> bool:
        """The same for a text alone."""
        return self.passes(text, text.encode() if PLAIN_TEXT.fullmatch(text) is not None else text_bytes(text))

    def _has_secret_name(self, value: object) -> bool:
        if isinstance(value, dict):
            names = tuple(value)
            is_secret = self._judged.get(names)
            if is_secret or (is_secret is None and self._judge(names)):
                return True
            value = value.values()
        elif not isinstance(value, list | tuple):
            return False
        if SCALARS.issuperset(map(type, value)):
            return False
        return any(isinstance(item, dict | list | tuple) and self._has_secret_name(item) for item in value)

    def _judge(self, names: tuple[str, ...]) -> bool:
        """The same names come with every step: they are looked at once."""
        found = any(plain(name) in self._names for name in names)
        if len(self._judged) < MOST_SHAPES and len(names) <= LARGEST_SHAPE:
            self._judged[names] = found
        return found

    def apply(self, value: object, replace: Replace, path: str = "", *, whole: bool = False) -> object:
        """The value with every secret replaced; the very same object where there is none.

        `whole` hands `replace` all of a text that holds a secret, and all of an object that has one among its names, so
        that nothing is lost.
        """
        if isinstance(value, str):
            return self.apply_text(value, replace, whole=whole)
        if isinstance(value, dict):
            return self._apply_dict(value, replace, path, whole=whole)
        if isinstance(value, list | tuple):
            items = [self.apply(item, replace, f"{path}/{index}", whole=whole) for index, item in enumerate(value)]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if self._whole and type(value) is int and str(value) in self._whole:
            return replace(value)
        return value

    def _apply_dict(self, value: dict[str, object], replace: Replace, path: str, *, whole: bool) -> object:
        if is_mark(value):
            return value
        changed, found = False, {}
        for key, item in value.items():
            where = f"{path}/{pointer_part(key)}"
            if self.is_secret_field(key, where) and holds_something(item):
                new: object = replace(item)
            else:
                new = self.apply(item, replace, where, whole=whole)
            name = self.apply_text(key, lambda _: REDACTED)
            if whole and name is not key:
                return replace(value)
            changed = changed or new is not item or name is not key
            found[str(name)] = new
        return found if changed else value

    def apply_text(self, text: str, replace: Replace, *, whole: bool = False) -> object:
        """A text that is a secret as a whole is replaced; one that holds a secret keeps the rest, unless `whole`."""
        if text in self._whole or (len(text) >= SHORTEST_KNOWN and SHAPES.fullmatch(text) is not None):
            return replace(text)
        left = self.take_out_shapes(self.take_out_known(text))
        return replace(text) if whole and left is not text else left

    def take_out_known(self, text: str) -> str:
        """The text without the secrets that were handed out, in any of their forms."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def take_out_shapes(self, text: str) -> str:
        if len(text) < SHORTEST_KNOWN:
            return text
        if SHAPES.search(text) is not None:
            text = SHAPES.sub(REDACTED, text)
        return INTRODUCED.sub(after_introduction, text) if INTRODUCED.search(text) is not None else text

    def without_known(self, value: object) -> object:
        """The value without the secrets that were handed out; the very same object where there is none."""
        if not self._whole:
            return value
        if isinstance(value, str):
            return REDACTED if value in self._whole else self.take_out_known(value)
        if isinstance(value, dict):
            pairs = {self.take_out_known(key): self.without_known(item) for key, item in value.items()}
            same = all(pairs.get(key, pairs) is item for key, item in value.items())
            return value if same else pairs
        if isinstance(value, list | tuple):
            items = [self.without_known(item) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return REDACTED if type(value) is int and str(value) in self._whole else value

    def is_secret_field(self, name: str, path: str) -> bool:
        return plain(name) in self._names or path in self._pointers

    def find(self, value: object) -> list[str]:
        """JSON pointers of the secrets in a value, for a message that says where and not what."""
        return list(self._find(value, ""))

    def _find(self, value: object, path: str) -> Iterator[str]:
        if isinstance(value, dict):
            if not is_mark(value):
                yield from self._find_in(value, path)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield from self._find(item, f"{path}/{index}")
        elif self.apply(value, lambda _: REDACTED) is not value or (isinstance(value, str) and REDACTED in value):
            # A mark is where a secret was: no call can be made with it, in a replay any more than before.
            yield path or "/"

    def _find_in(self, value: dict[str, object], path: str) -> Iterator[str]:
        for key, item in value.items():
            where = f"{path}/{pointer_part(key)}"
            if self.apply_text(key, lambda _: REDACTED) is not key:
                yield f"{path}/{REDACTED}"
            elif self.is_secret_field(key, where) and holds_something(item):
                yield where
            else:
                yield from self._find(item, where)


def places(value: object, matches: Callable[[object], bool], path: str = "") -> Iterator[str]:
    """JSON pointers of the scalars and names in a value for which `matches` holds; of a name, not what it says."""
    if isinstance(value, dict):
        for key, item in () if is_mark(value) else value.items():
            if matches(key):
                yield f"{path}/{REDACTED}"
            else:
                yield from places(item, matches, f"{path}/{pointer_part(key)}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from places(item, matches, f"{path}/{index}")
    elif matches(value):
        yield path or "/"


def after_introduction(match: re.Match[str]) -> str:
    introduction = INTRODUCTION.match(match[0])
    return f"{introduction[0] if introduction else ''}{REDACTED}"


def is_mark(value: dict[str, object]) -> bool:
    """A reference to a secret, or one that is encrypted: what may be written as it stands."""
    return len(value) == 1 and (isinstance(value.get("$secret"), str) or isinstance(value.get("$sealed"), str))


def holds_mark(value: object) -> bool:
    """Whether something was taken out of a value: with what is left nothing can be called."""
    if isinstance(value, str):
        return REDACTED in value
    if isinstance(value, dict):
        return any(holds_mark(item) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(holds_mark(item) for item in value)


def plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def pointer_part(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def holds_something(value: object) -> bool:
    """A reference, nothing, what was redacted already, or what says which type a parameter has is no secret."""
    if describes_type(value) or (isinstance(value, dict) and is_mark(value)):
        return False
    return value not in (None, "", REDACTED, True, False, [], {})


def describes_type(value: object) -> bool:
    """`{"type": "string"}`, as tools that are offered to a model have it for a parameter that is called `password`."""
    if not isinstance(value, dict) or not value.keys() <= TYPE_KEYWORDS or value.get("default"):
        return False
    choice = value.get("anyOf")
    return all(map(describes_type, choice)) if isinstance(choice, list) else value.get("type") in JSON_TYPES


def longest_first(form: str) -> tuple[int, str]:
    return -len(form), form


def forms(secret: str) -> Iterator[str]:
    """How a secret may look inside a longer text: as it is, in a URL, inside JSON, in hex, in base64."""
    for text in {secret, secret.strip(), *url_parts(secret)}:
        if len(text) < SHORTEST_KNOWN:
            continue
        data = text.encode("utf-8", "surrogatepass")
        yield text
        yield canonical_text(text)
        yield data.hex()
        yield data.hex().upper()
        for encode in (quote, quote_plus):
            for safe in ("", "/"):
                encoded = encode(text, safe=safe, errors="surrogatepass")
                yield encoded
                yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
        yield from base64_forms(data)


def url_parts(secret: str) -> Iterator[str]:
    """What of an address that is secret as a whole comes back alone: a server knows its own path, not its name."""
    if "://" in secret:
        rest = secret.partition("://")[2]
        credentials, _, behind = rest.rpartition("@")
        yield from (credentials.partition(":")[2], behind.partition("/")[2].strip("/"))


def text_bytes(text: str) -> bytes:
    """A text as it stands inside canonical JSON; one that cannot stand there is looked for as it is."""
    try:
        return canonicalize(text)[1:-1]
    except UsageError:
        return text.encode("utf-8", "surrogatepass")


def canonical_text(text: str) -> str:
    try:
        return canonicalize(text).decode()[1:-1]
    except UsageError:
        return text


def base64_forms(data: bytes) -> Iterator[str]:
    """The characters that stand for the secret alone, wherever it begins in what was encoded."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        core = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        if len(core) >= SHORTEST_KNOWN:
            yield core
            yield core.replace("+", "-").replace("/", "_")
