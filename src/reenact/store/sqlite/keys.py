"""Idempotency keys that callers gave: reserved in the transaction of the call, and never forgotten unnoticed.

A row is authenticated, and names the one after it: that there is none for a key is told by the row before its place.
The id of a session has a row too, which names its newest run; the first row has the digest of what keys are made with.
So has what an agent spent on a day: `reenact.store.beside.spending`.
"""

from __future__ import annotations

import hmac
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple, cast, get_args

from reenact.errors import DamagedRecord, KeyTaken, KeyUnavailable, NotAuthentic
from reenact.journal.chain import encode
from reenact.store.base import KeyCompletion, KeyRecord, KeyReservation, KeyState
from reenact.store.beside import spending
from reenact.store.damage import TELLS_MORE
from reenact.store.signing import MAC_BYTES, KeyOf, SigningKey, with_kid

Place = tuple[str, str, str]
"""(server, tool, key)"""
FIRST: Place = ("", "", "")
LAST = ""
SESSION = ("reenact", "session")
SESSIONS = (
    "SELECT CAST(agent_id AS BLOB), CAST(session AS BLOB), max(run_no), run_id FROM runs "
    "WHERE typeof(agent_id) = 'text' AND typeof(session) = 'text' GROUP BY agent_id, session"
)
STATES = get_args(KeyState)
AMOUNTS = (
    "SELECT CAST(day AS BLOB), CAST(agent_id AS BLOB), CAST(model AS BLOB), CAST(exact AS BLOB) FROM spending "
    "WHERE typeof(day) = 'text' AND typeof(agent_id) = 'text' AND typeof(model) = 'text' AND typeof(exact) = 'text'"
)
COLUMNS = "server, tool, key, request_digest, agent_id, trace_id, run_no, state, next, mac"
NEAREST = (
    f"SELECT {COLUMNS} FROM idempotency WHERE (server, tool, key) <= (?, ?, ?) "
    "ORDER BY server DESC, tool DESC, key DESC LIMIT 1"
)
MAC_AT = "SELECT mac FROM idempotency WHERE server = ? AND tool = ? AND key = ?"
Ask = Callable[[str, tuple[object, ...]], Iterable[tuple[object, ...]]]


class KeyRow(NamedTuple):
    server: str
    tool: str
    key: str
    request_digest: str | None
    agent_id: str
    trace_id: str
    run_no: int
    state: str
    next: str | None = None
    mac: object = None

    @property
    def place(self) -> Place:
        return self[:3]


class KeyRows:
    """The rows of one store: checked where they are read, authenticated where they are written."""

    def __init__(self, store_id: str, own_key: Callable[[], SigningKey], key_of: KeyOf) -> None:
        self._store_id = store_id
        self._own_key = own_key
        self._key_of = key_of
        self._spent: KeyRow | None = None

    def find(self, ask: Ask, place: Place) -> tuple[KeyRow, bool]:
        """(the row at a place, True), or (the one before it, False). NotAuthentic where one was changed or is gone."""
        found = [KeyRow(*row) for row in ask(NEAREST, place)]  # type: ignore[arg-type]  # as the columns hold them
        if not found:
            raise self._gone("the first of them is gone")
        (row,) = found
        self._check(row)
        if row.place == place:
            if row.state not in STATES:
                raise DamagedRecord(f"an idempotency key is in no state that there is; {TELLS_MORE}")
            return row, True
        if row.next != LAST and (row.next is None or row.next <= name(place)):
            raise self._gone("one that was there is gone")
        return row, False

    def record(self, ask: Ask, place: Place) -> KeyRecord | None:
        """Who has the key; None where nobody has."""
        row, is_there = self.find(ask, place)
        if not is_there:
            return None
        for (run_id,) in ask("SELECT run_id FROM runs WHERE run_no = ?", (row.run_no,)):
            return KeyRecord(*row[:6], run_id=str(run_id), state=cast("KeyState", row.state))
        raise DamagedRecord(f"run {row.run_no}, which used an idempotency key, is not there; {TELLS_MORE}")

    def session_run(self, ask: Ask, agent_id: str, session: str) -> str | None:
        """The newest run of the session of this id; None where nobody has begun one."""
        row, is_there = self.find(ask, session_place(agent_id, session))
        return row.trace_id if is_there else None

    def check_secret(self, ask: Ask, secret: bytes) -> bool:
        """Whether something is not bound yet; NotAuthentic where the first row is bound to another secret."""
        if not is_linked(ask):
            return False  # then nothing is found under any key
        first = self.find(ask, FIRST)[0]
        bound = first.trace_id
        if bound and bound != sha256(secret).hexdigest():
            raise another_secret("is not the one that was made with it" if secret else "is gone")
        return not bound or first.agent_id != spending.BOUND

    def check_spent(self, ask: Ask, day: str, agent_id: str, amounts: list[tuple[str, str]]) -> None:
        """NotAuthentic where (model, picodollars) is not what was written of the day and the agent."""
        try:
            row, is_there = self._find_spent(ask, spending.place(day, agent_id))
        except NotAuthentic:
            raise spending.not_what_was_spent(day, agent_id) from None
        if spending.digest(amounts) != (row.trace_id if is_there else spending.digest([])):
            raise spending.not_what_was_spent(day, agent_id)

    def _find_spent(self, ask: Ask, place: Place) -> tuple[KeyRow, bool]:
        """As `find`; the last one that was written or checked here is known by its MAC."""
        last = self._spent
        if last is not None and last.place == place and [(last.mac,)] == [tuple(row) for row in ask(MAC_AT, place)]:
            return last, True
        row, is_there = self.find(ask, place)
        if is_there:
            self._spent = row
        return row, is_there

    def _check(self, row: KeyRow) -> None:
        mac = row.mac
        if not isinstance(mac, bytes) or len(mac) != MAC_BYTES:
            raise self._gone("nothing vouches for one of them")
        key = self._key_of(mac[:8].hex())
        if key is None:
            kid = mac[:8].hex()
            raise KeyUnavailable(f"idempotency keys of this store are vouched for by key {kid}: put it back", kid=kid)
        if not hmac.compare_digest(self._mac(key, row), mac):
            raise self._gone("one of them is not what was written")

    def _gone(self, why: str) -> NotAuthentic:
        return NotAuthentic(
            f"nothing is sent under an idempotency key: of those that were used here, {why}; `reenact doctor` and "
            "`reenact verify RUN` tell more"
        )

    def _mac(self, key: SigningKey, row: KeyRow) -> bytes:
        return with_kid(key, encode(["reenact.key.v1", self._store_id, *row[:9]]))

    # -- writing -------------------------------------------------------------------------------------------------------

    def reserve(self, db: sqlite3.Cursor, wanted: KeyReservation, run_no: int) -> None:
        """The key is this call's from here on; KeyTaken when another call holds it or has used it up."""
        place = (wanted.server, wanted.tool, wanted.key)
        row, is_there = self.find(db.execute, place)
        own = KeyRow(*place, wanted.request_digest, wanted.agent_id, wanted.trace_id, run_no, "reserved", row.next)
        if not is_there:
            self._write(db, row._replace(next=name(place)))
        elif not (
            row.state == "released"
            or row.trace_id == wanted.trace_id
            or (row.state == "in_doubt" and row.trace_id == wanted.after)
        ):
            raise KeyTaken(f"trace {wanted.trace_id}: another call of {wanted.server}.{wanted.tool} holds its key")
        self._write(db, own)

    def complete(self, db: sqlite3.Cursor, done: KeyCompletion) -> None:
        """Only the call that holds the key completes it."""
        row, is_there = self.find(db.execute, (done.server, done.tool, done.key))
        if is_there and row.trace_id == done.trace_id:
            self._write(db, row._replace(state=done.state))

    def hold_session(
        self, db: sqlite3.Cursor | sqlite3.Connection, agent_id: str, session: str, run_no: int, run_id: str,
        parent_run: str | None,
    ) -> None:  # fmt: skip
        """The id is this run's from here on: nobody had it, or the run that it continues."""
        place = session_place(agent_id, session)
        row, is_there = self.find(db.execute, place)
        if not is_there:
            self._write(db, row._replace(next=name(place)))
        elif row.trace_id != parent_run:
            raise another_session(agent_id, session)
        self._write(db, KeyRow(*place, None, agent_id, run_id, run_no, "completed", row.next))

    def spend(
        self, db: sqlite3.Cursor, day: str, agent_id: str, before: list[tuple[str, str]], after: list[tuple[str, str]]
    ) -> None:
        """What was spent is `after` from here on. Refuses nothing: a call that was made is recorded."""
        place = spending.place(day, agent_id)
        try:
            row, is_there = self._find_spent(db.execute, place)
        except (NotAuthentic, KeyUnavailable, DamagedRecord):
            return  # and so it stays for whoever asks
        is_ours = spending.digest(before) == (row.trace_id if is_there else spending.digest([]))
        if not is_there:
            self._write(db, row._replace(next=name(place)))
        known = spending.digest(after) if is_ours else spending.UNKNOWN
        self._spent = self._write(db, KeyRow(*place, None, agent_id, known, 0, "completed", row.next))

    def bind(self, db: sqlite3.Connection) -> None:
        """The secret of the store, the ids of its sessions and what was spent, as found, where no row has them yet."""
        for agent, session, run_no, run_id in db.execute(SESSIONS).fetchall():
            with suppress(UnicodeDecodeError):  # nobody can ask for it
                own = (agent.decode(), session.decode())
                if self.session_run(db.execute, *own) is None:
                    self.hold_session(db, *own, run_no, run_id, None)
        found = db.execute("SELECT secret FROM key_secret WHERE typeof(secret) = 'blob'").fetchone()
        if found is None:
            raise another_secret("is gone")
        first, _ = self.find(db.execute, FIRST)
        if first.agent_id != spending.BOUND and self._bind_spending(db):
            first, _ = self.find(db.execute, FIRST)
        self._write(db, first._replace(agent_id=spending.BOUND, trace_id=sha256(found[0]).hexdigest()))

    def _bind_spending(self, db: sqlite3.Connection) -> bool:
        """Whether there was any."""
        found = defaultdict[tuple[str, str], list[tuple[str, str]]](list)
        for cells in db.execute(AMOUNTS).fetchall():
            with suppress(UnicodeDecodeError):  # nobody can ask for it
                day, agent_id, model, exact = (cell.decode() for cell in cells)
                found[day, agent_id].append((model, exact))
        cursor = db.cursor()
        for whose, amounts in found.items():
            self.spend(cursor, *whose, [], amounts)
        return bool(found)

    def forget_request(self, db: sqlite3.Connection, place: Place) -> None:
        """Its digest goes with the erasure of its call."""
        row, is_there = self.find(db.execute, place)
        if is_there:
            self._write(db, row._replace(request_digest=None))

    def _write(self, db: sqlite3.Cursor | sqlite3.Connection, row: KeyRow) -> KeyRow:
        written = row._replace(mac=self._mac(self._own_key(), row))
        write_row(db, written)
        return written

    # -- as a whole ----------------------------------------------------------------------------------------------------

    def link_all(self, db: sqlite3.Connection, key: SigningKey) -> None:
        """Vouch for what there is, as it is found, in the transaction that the caller has begun."""
        for as_found in (SESSION, spending.SPENT):
            db.execute("DELETE FROM idempotency WHERE server = ? AND tool = ?", as_found)
        rows = [KeyRow(*row) for row in db.execute(f"SELECT {COLUMNS} FROM idempotency ORDER BY 1, 2, 3")]
        rows = [KeyRow(*FIRST, None, "", "", 0, "released"), *(row for row in rows if row.place != FIRST)]
        for row, following in zip(rows, [*(name(row.place) for row in rows[1:]), LAST], strict=True):
            linked = row._replace(next=following)
            write_row(db, linked._replace(mac=self._mac(key, linked)))
        self.bind(db)

    def vouch_again(self, db: sqlite3.Connection, key: SigningKey) -> None:
        """Another key signs for the store from here on; what the one before it did not vouch for, this does not."""
        for row in (KeyRow(*row) for row in db.execute(f"SELECT {COLUMNS} FROM idempotency").fetchall()):
            try:
                self._check(row)
            except (NotAuthentic, KeyUnavailable):
                continue
            write_row(db, row._replace(mac=self._mac(key, row)))


def write_row(db: sqlite3.Cursor | sqlite3.Connection, row: KeyRow) -> None:
    db.execute(f"INSERT OR REPLACE INTO idempotency ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def name(place: Place) -> str:
    """As `next` has it; in the order of the places."""
    return "\n".join(place)


def session_place(agent_id: str, session: str) -> Place:
    return *SESSION, sha256(encode([agent_id, session])).hexdigest()


def another_session(agent_id: str, session: str) -> NotAuthentic:
    return NotAuthentic(
        f"nothing is begun: the run of session {session!r} of agent {agent_id} is not the one that was written; "
        "`reenact verify RUN` tells more. Put the store back from a backup, or say with `reenact keys vouch` that what "
        "is there is right"
    )


def another_secret(what: str) -> NotAuthentic:
    return NotAuthentic(
        f"nothing is sent: the secret of this store, which idempotency keys are made with, {what}; put the store back "
        "from a backup. `reenact keys vouch` takes it as it is: then no key that was used is known any more"
    )


def is_linked(ask: Ask) -> bool:
    return any(True for _ in ask("SELECT 1 FROM idempotency WHERE server = '' AND tool = '' AND key = ''", ()))
