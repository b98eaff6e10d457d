"""What PostgreSQL says, as the errors that callers of a store know. One line each; no password stands in any."""

from __future__ import annotations

import psycopg

from reenact.errors import StoreBusy, StoreError, StoreUnavailable, StoreVersionError, UsageError
from reenact.values.ids import NO_NUL


class Lost(StoreUnavailable):
    """The connection broke, or its peer fell silent: what was sent last may have been done, or not."""

    code = "STORE_CONNECTION_LOST"


class Again(StoreBusy):
    """A serialization failure or a deadlock: nothing was done, and the same may be tried at once."""

    code = "STORE_CONTENDED"


AGAIN = ("40001", "40P01")
GONE = ("57P01", "57P02", "57P03", "57P05", "25P03")
"""The server ends, restarts, or ended this session: as good as a cut connection."""
ADVICE: dict[str, str] = {
    "53100": "the server's disk is full: free some space there; nothing of it was written",
    "53200": "the server is out of memory; nothing of it was written",
    "25006": "this server only reads, as a replica does: name the primary",
    "28P01": "the password is wrong: put the right one into the URL, PGPASSWORD or ~/.pgpass",
    "28000": "the server does not let this user in: see its pg_hba.conf",
    "3D000": "there is no such database: `createdb` makes one",
}
CONNECTING = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("role", "28000"),
    ("database", "3D000"),
)
"""While a connection is made the server's code does not reach us; its words do."""
STARTING = ("the database system is", "too many clients", "remaining connection slots", "too many connections")


def translate(error: psycopg.Error, place: str) -> StoreError | UsageError:
    """An error of a statement."""
    state, said = error.sqlstate, first_line(error)
    if state in AGAIN:
        return Again(f"{place}: {said}; try again")
    if state is None or state.startswith("08") or state in GONE:
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Lost(f"{place}: the connection was lost: {said}")
        return data_error(error, place, said)
    if state in ("55P03", "57014"):
        return StoreBusy(f"{place}: somebody else holds what is needed here: {said}; try again")
    if state == "53300":
        return StoreBusy(f"{place}: {said}; give the server more connections, or put a pooler before it")
    if state == "42501":
        return StoreUnavailable(f"{place}: {said}; `reenact doctor` says which rights a role needs")
    if state in ("42P01", "42883", "3F000", "42703"):
        return StoreVersionError(f"{place}: {said}; this is no store of this version of reenact")
    if state.startswith("22"):
        return data_error(error, place, said)
    plain = said if state == "RN002" else f"{said} ({state})"  # of a store that was copied elsewhere, and says where
    return StoreUnavailable(f"{place}: {ADVICE.get(state, plain)}")


def data_error(error: psycopg.Error, place: str, said: str) -> StoreError | UsageError:
    """What the database cannot hold is nearly always one character."""
    if error.sqlstate in ("22P05", "22021") or "NUL" in said or "0x00" in said:
        return UsageError(f"an id or a name {NO_NUL}")
    return StoreUnavailable(f"{place}: {said}")


def cannot_connect(error: psycopg.Error, place: str) -> StoreError:
    """An error of connecting."""
    said = first_line(error)
    if any(word in said for word in STARTING):
        return StoreBusy(f"{place}: {said}; try again")
    for words, state in CONNECTING:
        if words in said and "FATAL" in said:
            return StoreUnavailable(f"{place}: {ADVICE[state]} ({said.partition('FATAL:')[2].strip()})")
    return Lost(f"{place} cannot be reached: {said}")


def first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = next((line for line in lines if "FATAL" in line), None)
    return fatal or (lines[0] if lines else type(error).__name__)
