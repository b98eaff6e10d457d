"""What is a secret in a value: by the name of its field, by its shape, or because it is one that was handed out.

Pure: the same value and rules give the same places. `{"$secret": NAME}` is a reference, and never touched.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import quote

REDACTED: Final = "[redacted]"
SHORTEST_KNOWN: Final = 6
"""Shorter values are left alone inside longer texts: they would be found everywhere."""

SECRET_NAMES: Final = frozenset(
    {
        "authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "apikey", "xauthtoken", "password",
        "passwd", "clientsecret", "secretkey", "privatekey", "accesstoken", "refreshtoken", "idtoken", "sessiontoken",
        "authtoken", "bearertoken", "smtppassword", "awssecretaccesskey",
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
    """,
    re.VERBOSE,
)
"""Secrets by what stands before them, which is kept."""
INTRODUCTION: Final = re.compile(r"://|\w+ ")

Replace = Callable[[object], object]
"""Given a secret (a text, or the whole value of a secret field), what stands in its place."""


class SecretRules:
    """Which values are secret. `fields` are names, or JSON pointers from the top of a value."""

    def __init__(self, known: Iterable[str] = (), fields: Iterable[str] = ()) -> None:
        names = [field for field in fields if not field.startswith("/")]
        self._names = SECRET_NAMES | {plain(name) for name in names}
        self._pointers = frozenset(field for field in fields if field.startswith("/"))
        self._known = known_pattern(known)

    def apply(self, value: object, replace: Replace, path: str = "") -> object:
        """The value with every secret replaced; the very same object where there is none."""
        if isinstance(value, str):
            return self.apply_text(value, replace)
        if isinstance(value, dict):
            return self._apply_dict(value, replace, path)
        if isinstance(value, list):
            items = [self.apply(item, replace, f"{path}/{index}") for index, item in enumerate(value)]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return value

    def _apply_dict(self, value: dict[str, object], replace: Replace, path: str) -> object:
        if set(value) == {"$secret"}:
            return value
        changed, found = False, {}
        for key, item in value.items():
            where = f"{path}/{key}"
            if self.is_secret_field(key, where) and holds_something(item):
                new: object = replace(item)
            else:
                new = self.apply(item, replace, where)
            name = self.apply_text(key, lambda _: REDACTED)
            changed = changed or new is not item or name is not key
            found[str(name)] = new
        return found if changed else value

    def apply_text(self, text: str, replace: Replace) -> object:
        """A text that is a secret as a whole is replaced; one that holds a secret keeps the rest."""
        for pattern in (self._known, SHAPES):
            if pattern is None or len(text) < SHORTEST_KNOWN:
                continue
            whole = pattern.fullmatch(text)
            if whole is not None:
                return replace(text)
            if pattern.search(text) is not None:
                text = pattern.sub(REDACTED, text)
        if len(text) >= SHORTEST_KNOWN and INTRODUCED.search(text) is not None:
            text = INTRODUCED.sub(after_introduction, text)
        return text

    def is_secret_field(self, name: str, path: str) -> bool:
        return plain(name) in self._names or path in self._pointers

    def find(self, value: object) -> list[str]:
        """JSON pointers of the secrets in a value, for a message that says where and not what."""
        places: list[str] = []

        def look(item: object, path: str) -> None:
            if isinstance(item, str):
                # A mark is where a secret was: no call can be made with it, in a replay any more than before.
                if REDACTED in item or self.apply_text(item, lambda _: REDACTED) is not item:
                    places.append(path or "/")
            elif isinstance(item, dict) and set(item) != {"$secret"}:
                for key, inner in item.items():
                    where = f"{path}/{key}"
                    if self.is_secret_field(key, where) and holds_something(inner):
                        places.append(where)
                    else:
                        look(inner, where)
            elif isinstance(item, list):
                for index, inner in enumerate(item):
                    look(inner, f"{path}/{index}")

        look(value, "")
        return places


def after_introduction(match: re.Match[str]) -> str:
    introduction = INTRODUCTION.match(match[0])
    return f"{introduction[0] if introduction else ''}{REDACTED}"


def plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def holds_something(value: object) -> bool:
    """A reference, nothing, or what was redacted already is no secret."""
    if isinstance(value, dict) and set(value) <= {"$secret", "$sealed"} and value:
        return False
    return value not in (None, "", REDACTED, True, False)


def known_pattern(known: Iterable[str]) -> re.Pattern[str] | None:
    """Handed-out secrets, also as they look inside a URL or in base64."""
    forms: set[str] = set()
    for secret in known:
        if len(secret) >= SHORTEST_KNOWN:
            forms |= {secret, quote(secret, safe=""), b64encode(secret.encode()).decode().rstrip("=")}
    if not forms:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form))))
