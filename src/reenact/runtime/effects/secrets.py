"""Where secrets come from: what the host bound, variables that are set apart for it, or one file. They reach the skill
only.

A plan may come from anybody, so a name in it is no name of a variable by itself: NAME is looked up as
REENACT_SECRET_NAME. A host's policy may list names that are variables as they stand; a session's host, whose
program says the name, needs none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from reenact.errors import SecretError, UsageError
from reenact.policy.ceiling import names
from reenact.store.location import SECRETS_VARIABLE as FILE_VARIABLE
from reenact.values.bounds import read_file
from reenact.values.canonical import parse_json

PREFIX = "REENACT_SECRET_"


class Secrets:
    """Looks a secret up by name. Its value goes to a skill, and is from then on taken out of whatever comes back."""

    def __init__(self, bound: Mapping[str, str] | None = None) -> None:
        if bound is not None and not isinstance(bound, Mapping):
            raise UsageError("secrets are given by name, {NAME: value}")
        self._bound = dict(bound or {})
        self.seen = {value for value in self._bound.values() if value}
        """Values that the host bound or that were looked up; they are never forgotten."""
        self._names: tuple[str, ...] | None = None
        self._variables = False

    def within(self, names: tuple[str, ...] | None, *, variables: bool) -> Secrets:
        """The same secrets for whoever may look up these names alone; `variables` are then meant as they stand."""
        view = Secrets(self._bound)
        view.seen, view._names, view._variables = self.seen, names, variables  # its own
        return view

    def binds(self, name: str) -> bool:
        """Whether the host's program gave it: then nobody else has to allow it."""
        return bool(self._bound.get(name))

    def get(self, name: str) -> str:
        value = self._bound.get(name) or (self._found(name) if names(self._names, name) else None)
        if not value:
            raise SecretError(f"secret {name} is not set; {how_to_set(name)}, then run `reenact resume`")
        self.seen.add(value)
        return value

    def _found(self, name: str) -> str | None:
        own = os.environ.get(name) if self._variables or name.startswith(PREFIX) else None
        return own or os.environ.get(PREFIX + name) or self._from_file(name)

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


def how_to_set(name: str) -> str:
    variable = name if name.startswith(PREFIX) else PREFIX + name
    return f"put it into the environment as {variable} or into the file named by {FILE_VARIABLE}"
