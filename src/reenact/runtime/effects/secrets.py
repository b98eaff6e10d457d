"""Where secrets come from: what the host bound, the environment, or one file. They reach the skill only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from reenact.errors import SecretError, UsageError
from reenact.values.bounds import read_file
from reenact.values.canonical import parse_json

FILE_VARIABLE = "REENACT_SECRETS_FILE"


class Secrets:
    """Looks a secret up by name. Its value goes to a skill, and is from then on taken out of whatever comes back."""

    def __init__(self, bound: Mapping[str, str] | None = None) -> None:
        if bound is not None and not isinstance(bound, Mapping):
            raise UsageError("secrets are given by name, {NAME: value}")
        self._bound = dict(bound or {})
        self.seen = {value for value in self._bound.values() if value}
        """Values that the host bound or that were looked up; they are never forgotten."""

    def get(self, name: str) -> str:
        value = self._bound.get(name) or os.environ.get(name) or self._from_file(name)
        if not value:
            raise SecretError(
                f"secret {name} is not set; put it into the environment or into the file named by {FILE_VARIABLE}, "
                "then run `reenact resume`"
            )
        self.seen.add(value)
        return value

    def has(self, name: str) -> bool:
        """Whether the name can be looked up now."""
        try:
            self.get(name)
        except SecretError:
            return False
        return True

    def learn(self, names: Iterable[str]) -> None:
        """Know these values before anything is written; a name that nobody has yet is left alone."""
        for name in names:
            self.has(name)

    def _from_file(self, name: str) -> str | None:
        path = os.environ.get(FILE_VARIABLE)
        if not path:
            return None
        try:
            document = parse_json(read_file(path), what=path)
        except OSError as error:
            raise SecretError(f"the file of secrets {path} cannot be read: {error.strerror}") from None
        except UsageError as error:
            raise SecretError(f"the file of secrets {path} is not JSON: {error.code}") from None
        value = document.get(name) if isinstance(document, dict) else None
        return value if isinstance(value, str) else None

    @property
    def known_values(self) -> frozenset[str]:
        return frozenset(self.seen)
