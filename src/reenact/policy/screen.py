"""A quick look at a value on its way to the disk: most hold nothing that redaction could take for a secret.

The look is over the value's canonical bytes and its field names. It may be wrong in one direction only: what it lets
pass, `SecretRules.apply` gives back untouched; what it stops may still turn out to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from reenact.contracts.references import SCALARS
from reenact.errors import UsageError
from reenact.policy.redaction import SECRET_NAMES, forms, plain
from reenact.values.canonical import canonicalize

SUSPECT: Final = re.compile(
    rb"sk-|sk_|rk_|pk_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|SG\.|npm_|eyJ|-----BEGIN"
    rb"|Bearer |bearer |Basic |basic |://|apikey=|api_key=|access_token=|client_secret=|password="
)
"""Whatever has the shape of a secret holds one of these."""
RARE: Final = re.compile(rb"[-_=/.xABbJS]")
"""Each of them has one of these characters, which many values have not."""
PLAIN_TEXT: Final = re.compile(r"[ !#-\[\]-~]*")
"""What JSON writes as it is."""
MOST_SHAPES: Final = 1024
LARGEST_SHAPE: Final = 64


class Screen:
    """Made from what `SecretRules` is made from: secrets that are known, names or JSON pointers of secret fields."""

    def __init__(self, known: Iterable[str] = (), fields: Iterable[str] = ()) -> None:
        known, fields = list(known), list(fields)
        self._names = SECRET_NAMES | {plain(field) for field in fields if not field.startswith("/")}
        self._by_place = any(field.startswith("/") for field in fields)
        self._known = tuple(
            {text_bytes(form) for secret in known for form in (secret, secret.strip(), *forms(secret)) if form}
        )
        self._judged: dict[tuple[str, ...], bool] = {}

    def passes(self, value: object, content: bytes) -> bool:
        """True when nothing in `value`, whose canonical bytes are `content`, can be a secret."""
        if self._by_place or (RARE.search(content) is not None and SUSPECT.search(content) is not None):
            return False
        if self._known and any(known in content for known in self._known):
            return False
        return not self._has_secret_name(value)

    def passes_text(self, text: str) -> bool:
        return self.passes(text, text_bytes(text))

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


def text_bytes(text: str) -> bytes:
    """A text as it stands inside canonical JSON; one that cannot stand there is looked for as it is."""
    if PLAIN_TEXT.fullmatch(text) is not None:
        return text.encode()
    try:
        return canonicalize(text)[1:-1]
    except UsageError:
        return text.encode("utf-8", "surrogatepass")
