"""What PostgreSQL says, as the errors that callers of a store know. One line each; no password stands in any."""

from __future__ import annotations

import psycopg

from reenact.errors import StoreBusy, StoreError, StoreUnavailable, StoreVersionError, UsageError
from reenact.values.ids import NO_NUL


class Lost(StoreUnavailable):
    """The connection broke, or its peer fell silent: what was sent last may have been done, or not."""

    code = "STORE_CONNECTION_LOST"


class Again(StoreBusy):
    """A serialization failure, a deadlock, a server that takes nobody in just now: nothing was done, and the same may
    be tried at once."""

    code = "STORE_CONTENDED"
    takes_s = 0.0
    """So long another try may have to wait."""


class Locked(Again):
    """Somebody else held what was needed for as long as was waited for it."""

    code = "STORE_LOCKED"
    takes_s = 3.0


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
    "42501": "`reenact db grants` prints which rights a role needs",
}
CONNECTING = (
    ("No space left on device", "53100"),
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("permission denied", "42501"),
    ("role", "28000"),
    ("does not exist", "3D000"),
)
"""While a connection is made the server's code does not reach us; its words do."""
FULL = ("too many clients", "connection slots", "too many connections")
STARTING = "the database system is"


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
        kind = Locked if state == "55P03" else StoreBusy
        return kind(f"{place}: somebody else holds what is needed here: {said}; try again")
    if state == "53300":
        return full(place, said)
    if state == "42501":
        return StoreUnavailable(f"{place}: {said}; {ADVICE[state]}")
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
    _, is_the_servers, reason = said.partition("FATAL:")
    if any(words in said for words in FULL):
        return full(place, reason.strip() or said)
    if STARTING in said:
        return Again(f"{place}: {reason.strip() or said}; try again")
    for words, state in CONNECTING:
        if words in said and is_the_servers:
            return StoreUnavailable(f"{place}: {ADVICE[state]} ({reason.strip()})")
    return Lost(f"{place} cannot be reached: {said}")


def full(place: str, said: str) -> Again:
    return Again(f"{place}: {said}; give the server more connections, or put a pooler before it")


def first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = next((line for line in lines if "FATAL" in line), None)
    return fatal or (lines[0] if lines else type(error).__name__)
