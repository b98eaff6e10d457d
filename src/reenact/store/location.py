"""Which store is meant: `--store`, `REENACT_STORE`, or the user's data directory; and which files are its own."""

from __future__ import annotations

import os
import re
import shlex
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from reenact.errors import UsageError

MEMORY = "sqlite://:memory:"
POSTGRES = ("postgresql://", "postgres://")
POLICY_FILE = "reenact.toml"
POLICY_VARIABLE = "REENACT_POLICY"
SECRETS_VARIABLE = "REENACT_SECRETS_FILE"
TRUST_FILE = "trusted_keys"
KEY_SUFFIXES = (".key", ".encryption-key", ".mac-key")
COMPANIONS = ("", "-wal", "-shm", "-journal", "-turn", *KEY_SUFFIXES)
OWN = re.compile(
    r"(-wal|-shm|-journal|-turn|\.(key|mac-key|encryption-key|schema-\d+\.backup).*|\.archive)?", re.DOTALL
)
"""What follows the database's name in the names of the store's other files: drafts, copies, its archive among them."""


def default_path() -> Path:
    """In the data directory; UsageError for a user who has none, as in many containers."""
    return data_directory() / "reenact" / "reenact.db"


def config_directory() -> Path | None:
    """Where a user's own settings lie; None for a user without a home."""
    try:
        if sys.platform == "darwin" or os.name == "nt":
            return data_directory()
        named = os.environ.get("XDG_CONFIG_HOME", "")
        return Path(named) if Path(named).is_absolute() else Path.home() / ".config"
    except (RuntimeError, UsageError):
        return None


def data_directory() -> Path:
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support"
        if os.name == "nt":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        named = os.environ.get("XDG_DATA_HOME", "")
        # A relative path is to be ignored, says the specification: it would be another store in every folder.
        return Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError:
        raise UsageError("you have no home directory; name a store with --store or REENACT_STORE") from None


def postgres_url(url: str | None) -> str | None:
    """The URL of a store in a PostgreSQL database, where one is meant; None where another store is."""
    given = url or os.environ.get("REENACT_STORE")
    return given if given is not None and given.startswith(POSTGRES) else None


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    try:
        parts = urlsplit(url)
        user, _, place = parts.netloc.rpartition("@")
        query = [(name, value) for name, value in parse_qsl(parts.query) if "password" not in name]
    except ValueError:
        return "postgresql://"
    netloc = f"{user.partition(':')[0]}@{place}" if user else place
    return urlunsplit(("postgresql", netloc, parts.path, urlencode(query), ""))


def sqlite_path(url: str | None) -> str:
    """The file that a store's URL names; `:memory:` for the one that is never written.

    `sqlite:///PATH` (so `sqlite:////var/lib/agents.db` is absolute), or a plain path. A shell expands `~/` only where a
    word begins with it, so it is expanded here. A link is followed: whatever name a store is opened by, its key and its
    turnstile are the files beside it.
    """
    path = named_path(url)
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114 - where it may not look, it is none


def named_path(url: str | None) -> str:
    given = url or os.environ.get("REENACT_STORE")
    if not given:
        return str(default_path())
    if given in (MEMORY, "sqlite:///:memory:", ":memory:"):
        return ":memory:"
    if given.startswith("sqlite:///"):
        path = given.removeprefix("sqlite:///")
        if path:
            return at_home(path)
    elif "://" not in given:
        return at_home(given)
    if given.startswith(POSTGRES):
        raise UsageError(f"{without_password(given)} is a store in a database, and here one in a file is meant")
    raise UsageError(f"store {given!r} is not understood; write sqlite:///PATH, or postgresql://HOST/DATABASE")


def to_type(url: str, *words: str) -> str:
    """A command that can be copied as it stands, for the store with this URL; named where it is not the default."""
    return shlex.join(["reenact", *words, *store_option(url)])


def to_resolve(run_id: str, step_id: str, option: list[str]) -> str:
    """What a person types about a call in doubt; `option` names the store."""
    words = f"{shlex.join(['reenact', 'resolve', run_id, step_id])} --succeeded|--failed|--redispatch --reason '…'"
    return f"{words} {shlex.join(option)}" if option else words


def store_option(url: str) -> list[str]:
    """Nothing for the store that is taken by itself, and for one in memory, which no command reaches."""
    if url.startswith(POSTGRES):
        named = postgres_url(None)
        return [] if named is not None and without_password(named) == url else ["--store", url]
    path = url.removeprefix("sqlite:///")
    try:
        default = os.path.realpath(named_path(None))
    except UsageError:  # there is none
        default = None
    return [] if path == ":memory:" or os.path.realpath(path) == default else ["--store", url]


def at_home(path: str) -> str:
    """`~/` at the beginning is the user's home directory."""
    if not path.startswith("~/"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        raise UsageError(f"you have no home directory for {path}; name the whole path") from None


def host_files() -> Iterator[Path]:
    """Where a host says what plans may do, whose keys it trusts, and its secrets: none of it is for a plan."""
    yield Path(POLICY_FILE).absolute()
    config = config_directory()
    if config is not None:
        yield from (config / "reenact" / name for name in (POLICY_FILE, TRUST_FILE))
    for named in filter(None, map(os.environ.get, (POLICY_VARIABLE, SECRETS_VARIABLE))):
        yield Path(named).absolute()


class OwnFiles:
    """`reenact.skills.services.StoreFiles` of a store in a file: database, log, locks, keys, and copies of a migration.

    A file is known by device and inode, so that no link leads to it; one that is not there yet by its folder and its
    name, without regard to case. A store in memory has only the keys that lie `elsewhere`, where the host says.
    """

    def __init__(self, database: Path | None, elsewhere: Callable[[], Iterable[Path]] = tuple) -> None:
        self._database = database
        self._elsewhere = elsewhere

    def paths(self) -> list[Path]:
        found = {*self._elsewhere(), *host_files()}
        if self._database is not None:
            found |= {Path(f"{self._database}{suffix}") for suffix in COMPANIONS}
            with suppress(OSError):
                found |= {entry for entry in self._database.parent.iterdir() if self._is_named_so(entry)}
        return sorted({Path(os.path.realpath(path)) for path in found})

    def has(self, path: Path) -> bool:
        if self._database is not None and self._is_named_so(path):
            folder = identity(path.parent)
            if folder is not None and folder == identity(self._database.parent):
                return True
        wanted, found = spelled(str(path)), identity(path)
        return any(spelled(str(own)) == wanted or (found and found == identity(own)) for own in self.paths())

    def has_open(self, descriptor: int) -> bool:
        return identity(descriptor) in {identity(own) for own in self.paths()}

    def _is_named_so(self, path: Path) -> bool:
        assert self._database is not None
        name, database = spelled(path.name), spelled(self._database.name)
        return name.startswith(database) and OWN.fullmatch(name.removeprefix(database)) is not None


def spelled(name: str) -> str:
    """As a file system compares names that keeps neither case nor composed letters apart."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def identity(file: Path | int) -> tuple[int, int] | None:
    """By which a file or folder is known whatever it is called; None where there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116 - also of a descriptor
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
