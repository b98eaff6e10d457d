"""A reader's list of trusted keys: `trusted_keys` in his configuration directory. docs/spec/trusted_keys.md.

It says who is trusted, and never who signs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reenact.errors import ReenactError, StoreUnavailable, UsageError
from reenact.store.location import TRUST_FILE, config_directory
from reenact.values.bounds import read_file
from reenact.values.canonical import parse_json
from reenact.verify.signed.trust import MAX_BYTES, Trust, TrustedKey, read_trust, trusted_line


def trust_file() -> Path | None:
    """Where it lies without being named; None for a user without a home."""
    folder = config_directory()
    return None if folder is None else folder / "reenact" / TRUST_FILE


def own_trust() -> Trust:
    """The list that lies there; empty where there is none. Other keys are not refused by it, and not vouched for."""
    file = trust_file()
    if file is None or not file.exists():
        return Trust()
    refuse_foreign(file)
    return read_trust(read_named(file), str(file))


def named_trust(file: Path) -> Trust:
    """The list in this file, or {kid: key} as `keys.json` has it: no other key counts."""
    data, says = (
        read_named(file),
        "keys are lines NAME  PURPOSES  KEY, or one JSON object {kid: public key in base64url}",
    )
    if not data.lstrip().startswith(b"{"):
        return read_trust(data, str(file), only=True)
    try:
        document = parse_json(data, what=str(file))
    except ReenactError as error:
        raise UsageError(f"{error}; {says}") from None
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise UsageError(f"{file}: {says}")
    return Trust.of({kid: str(key) for kid, key in document.items()})


def add_trusted(file: Path, key: TrustedKey) -> None:
    """One more line, behind what is there, which stays as it is; UsageError where both could not be read together."""
    line, there = trusted_line(key).encode() + b"\n", b""
    if file.exists():
        refuse_foreign(file)
        there = read_named(file)
    read_trust(there + b"\n" + line, str(file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line if not there or there.endswith(b"\n") else b"\n" + line)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreUnavailable(f"{file}: cannot be written: {error.strerror}") from None


def read_named(file: Path) -> bytes:
    try:
        return read_file(file, MAX_BYTES)
    except OSError as error:
        raise StoreUnavailable(f"{file}: {error.strerror or 'cannot be read'}") from None


def refuse_foreign(file: Path) -> None:
    """Whoever can write it says who is trusted: nobody but its reader, and the administrator."""
    try:
        status = file.stat()
    except OSError as error:
        raise StoreUnavailable(f"{file}: {error.strerror}") from None
    if os.name != "posix":
        return
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise UsageError(f"{file} can be written by others, and is not believed; chmod go-w {file}")
    if status.st_uid not in (0, os.geteuid()):
        raise UsageError(f"{file} belongs to another user, and is not believed")
