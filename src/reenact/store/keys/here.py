"""The signing keys that are here: those that `REENACT_SIGNING_KEY` names, else the files beside the store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path

from reenact.errors import KeyUnavailable, StoreUnavailable, UsageError
from reenact.store.keys.command import CommandKey
from reenact.store.private_file import sweep
from reenact.store.signing import SigningKey, create_key, key_in_memory, make_strict, read_key

VARIABLE = "REENACT_SIGNING_KEY"
COMMAND = "exec:"
KID = re.compile(r"[0-9a-f]{16}\Z")


class KeysHere:
    """By kid, each with where it is. A store in memory (`database` is None) has one that is gone with it."""

    def __init__(self, database: Path | None) -> None:
        self._database = database
        self.given = given_places() if database is not None else ()
        """As the host names them, the first of which signs; empty where the files beside the store are meant."""
        self._found: dict[str, tuple[SigningKey, str]] = {}
        self._is_read = False

    def first(self) -> SigningKey | None:
        """The one that the host names first, or the file of a store that nothing was signed for yet."""
        if self.given:
            return self._take(self.given[0])
        if self._database is None:
            return next((key for key, _ in self._found.values()), None)
        return self._take(str(self._beside()))

    def get(self, kid: str) -> SigningKey | None:
        if kid not in self._found and self._database is not None and not (self.given and self._is_read):
            self._is_read = True
            for place in self.given or (str(self._beside(kid)), str(self._beside())):
                self._take(place)
        found = self._found.get(kid)
        return None if found is None else found[0]

    def usable(self, kid: str) -> SigningKey | None:
        """For who only reads: one that cannot be used is one that is not here."""
        with suppress(StoreUnavailable, KeyUnavailable):
            return self.get(kid)
        return None

    def all(self) -> dict[str, tuple[SigningKey, str]]:
        """kid → (key, where it is)"""
        for place in self.given or (() if self._database is None else map(str, files_beside(self._database))):
            self._take(place)
        return dict(self._found)

    def make(self, *, first: bool) -> SigningKey:
        """A new one beside the store; `first` in a store that has none, later ones carry their kid in their name."""
        if self._database is None:
            key, place = key_in_memory(), "memory"
        else:
            sweep(self._beside(), later=".*")  # each has a name of its own: nobody else would find them again
            key = create_key(lambda kid: self._beside(None if first else kid))
            place = str(self._beside(None if first else key.kid))
        self._found[key.kid] = (key, place)
        return key

    def vouches_once(self, key: SigningKey) -> bool:
        """Whether a store of before is vouched for with this key without being asked.

        A key that the host names may be made by anything, and its file is not ours to write: no line in it says that
        this was done, and none can be taken out. There a person says so.
        """
        return not (key.is_strict or self.given)

    def make_strict(self) -> None:
        """What lies beside the store vouches for all that there is: from here on a commit without a MAC is damage."""
        for key, place in self._found.values() if not self.given else ():
            if not key.is_strict:
                with suppress(StoreUnavailable):  # where it cannot be written the database alone remembers
                    make_strict(Path(place))
                    key.is_strict = True

    def elsewhere(self) -> list[Path]:
        """Files that the host names, commands that sign too."""
        return [Path(place.removeprefix(COMMAND)) for place in self.given]

    def _beside(self, kid: str | None = None) -> Path:
        return Path(f"{self._database}.key" if kid is None else f"{self._database}.key.{kid}")

    def _take(self, place: str) -> SigningKey | None:
        for key, known in self._found.values():
            if known == place:
                return key
        read = self._read(place)
        if read is not None:
            self._found.setdefault(read.kid, (read, place))
        return read

    def _read(self, place: str) -> SigningKey | None:
        if place.startswith(COMMAND):
            return CommandKey(Path(place.removeprefix(COMMAND)), Path(f"{self._database}.mac-key"))
        try:
            return read_key(Path(place), follow=bool(self.given))
        except FileNotFoundError:
            if self.given:
                raise StoreUnavailable(f"{VARIABLE}: {place} is not there") from None
            return None


def files_beside(database: Path) -> Iterator[Path]:
    """Where the first key of a store lies, and those of later ones that are there."""
    first = Path(f"{database}.key")
    yield first
    for file in sorted(database.parent.glob(f"{escape(first.name)}.*")):
        if KID.match(file.suffix.removeprefix(".")):
            yield file


def given_places() -> tuple[str, ...]:
    """What `REENACT_SIGNING_KEY` names: files, and commands as `exec:/PATH`, joined as in PATH."""
    parts = os.environ.get(VARIABLE, "").split(os.pathsep)
    places: list[str] = []
    while parts:
        part = parts.pop(0)
        if part == COMMAND.rstrip(":") and os.pathsep == ":":
            part = COMMAND + (parts.pop(0) if parts else "")
        if part == COMMAND:
            raise UsageError(f"{VARIABLE}: name a command after exec:, as in exec:/usr/local/bin/signer")
        if part:
            places.append(part)
    return tuple(places)
