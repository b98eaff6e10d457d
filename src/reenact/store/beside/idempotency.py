"""Idempotency keys that callers gave: reserved in the transaction of the call, and never forgotten unnoticed.

A row is authenticated, and names the one after it: that there is none for a key is told by the row before its place.
The id of a session has a row too, which names its newest run; the first row has the digest of what keys are made with.
So has what an agent spent on a day: `spending`.
The rows themselves lie in an engine's table, `IdempotencyRows`.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple, Protocol, cast, get_args

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
STATES = get_args(KeyState)


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


class IdempotencyRows(Protocol):
    """The rows as one transaction, or one reader, sees them."""

    @property
    def vouch_for_amounts(self) -> bool:
        """Whether what was spent has rows here too."""

    def nearest(self, place: Place, /) -> KeyRow | None:
        """The row at a place, or else the last one before it."""

    def put(self, row: KeyRow, /) -> None:
        """In the place of the one that is there, if any."""

    def run_id(self, run_no: int, /) -> str | None: ...
    def secret(self) -> bytes | None: ...
    def sessions(self) -> list[tuple[str, str, int, str]]:
        """(agent, id, number and id of the newest run) of every session that has an id."""

    def amounts(self) -> list[tuple[str, str, str, str]]:
        """(day, agent, model, picodollars) of all that was spent, where it has rows here."""

    def all(self) -> list[KeyRow]:
        """In the order of their places."""

    def forget(self, server: str, tool: str, /) -> None:
        """Take out every row of a tool."""


class IdempotencyKeys:
    """The keys of one store: checked where they are read, authenticated where they are written."""

    def __init__(self, store_id: str, own_key: Callable[[], SigningKey], key_of: KeyOf) -> None:
        self._store_id = store_id
        self._own_key = own_key
        self._key_of = key_of
        self._spent: KeyRow | None = None

    def find(self, rows: IdempotencyRows, place: Place) -> tuple[KeyRow, bool]:
        """(the row at a place, True), or (the one before it, False). NotAuthentic where one was changed or is gone."""
        row = rows.nearest(place)
        if row is None:
            raise self._gone("the first of them is gone")
        self._check(row)
        if row.place == place:
            if row.state not in STATES:
                raise DamagedRecord(f"an idempotency key is in no state that there is; {TELLS_MORE}")
            return row, True
        if row.next != LAST and (row.next is None or row.next <= name(place)):
            raise self._gone("one that was there is gone")
        return row, False

    def record(self, rows: IdempotencyRows, place: Place) -> KeyRecord | None:
        """Who has the key; None where nobody has."""
        row, is_there = self.find(rows, place)
        if not is_there:
            return None
        run_id = rows.run_id(row.run_no)
        if run_id is None:
            raise DamagedRecord(f"run {row.run_no}, which used an idempotency key, is not there; {TELLS_MORE}")
        return KeyRecord(*row[:6], run_id=run_id, state=cast("KeyState", row.state))

    def session_run(self, rows: IdempotencyRows, agent_id: str, session: str) -> str | None:
        """The newest run of the session of this id; None where nobody has begun one."""
        row, is_there = self.find(rows, session_place(agent_id, session))
        return row.trace_id if is_there else None

    def check_secret(self, rows: IdempotencyRows, secret: bytes) -> bool:
        """Whether something is not bound yet; NotAuthentic where the first row is bound to another secret."""
        if not is_linked(rows):
            return False  # then nothing is found under any key
        first = self.find(rows, FIRST)[0]
        bound = first.trace_id
        if bound and bound != sha256(secret).hexdigest():
            raise another_secret("is not the one that was made with it" if secret else "is gone")
        return not bound or first.agent_id != spending.bound(rows.vouch_for_amounts)

    def check_spent(self, rows: IdempotencyRows, day: str, agent_id: str, amounts: list[tuple[str, str]]) -> None:
        """NotAuthentic where (model, picodollars) is not what was written of the day and the agent."""
        try:
            row, is_there = self._find_spent(rows, spending.place(day, agent_id))
        except NotAuthentic:
            raise spending.not_what_was_spent(day, agent_id) from None
        if spending.digest(amounts) != (row.trace_id if is_there else spending.digest([])):
            raise spending.not_what_was_spent(day, agent_id)

    def _find_spent(self, rows: IdempotencyRows, place: Place) -> tuple[KeyRow, bool]:
        """As `find`; the one that was written or checked here last is known again as it is."""
        last = self._spent
        if last is not None and last.place == place and rows.nearest(place) == last:
            return last, True
        row, is_there = self.find(rows, place)
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

    def reserve(self, rows: IdempotencyRows, wanted: KeyReservation, run_no: int) -> None:
        """The key is this call's from here on; KeyTaken when another call holds it or has used it up."""
        place = (wanted.server, wanted.tool, wanted.key)
        row, is_there = self.find(rows, place)
        own = KeyRow(*place, wanted.request_digest, wanted.agent_id, wanted.trace_id, run_no, "reserved", row.next)
        if not is_there:
            self._write(rows, row._replace(next=name(place)))
        elif not (
            row.state == "released"
            or row.trace_id == wanted.trace_id
            or (row.state == "in_doubt" and row.trace_id == wanted.after)
        ):
            raise KeyTaken(f"trace {wanted.trace_id}: another call of {wanted.server}.{wanted.tool} holds its key")
        self._write(rows, own)

    def complete(self, rows: IdempotencyRows, done: KeyCompletion) -> None:
        """Only the call that holds the key completes it."""
        row, is_there = self.find(rows, (done.server, done.tool, done.key))
        if is_there and row.trace_id == done.trace_id:
            self._write(rows, row._replace(state=done.state))

    def hold_session(
        self, rows: IdempotencyRows, agent_id: str, session: str, run_no: int, run_id: str,
        parent_run: str | None,
    ) -> None:  # fmt: skip
        """The id is this run's from here on: nobody had it, or the run that it continues."""
        place = session_place(agent_id, session)
        row, is_there = self.find(rows, place)
        if not is_there:
            self._write(rows, row._replace(next=name(place)))
        elif row.trace_id != parent_run:
            raise another_session(agent_id, session)
        self._write(rows, KeyRow(*place, None, agent_id, run_id, run_no, "completed", row.next))

    def spend(
        self, rows: IdempotencyRows, day: str, agent_id: str, before: list[tuple[str, str]],
        after: list[tuple[str, str]],
    ) -> None:  # fmt: skip
        """What was spent is `after` from here on. Refuses nothing: a call that was made is recorded."""
        place = spending.place(day, agent_id)
        try:
            row, is_there = self._find_spent(rows, place)
        except (NotAuthentic, KeyUnavailable, DamagedRecord):
            return  # and so it stays for whoever asks
        is_ours = spending.digest(before) == (row.trace_id if is_there else spending.digest([]))
        if not is_there:
            self._write(rows, row._replace(next=name(place)))
        known = spending.digest(after) if is_ours else spending.UNKNOWN
        self._spent = self._write(rows, KeyRow(*place, None, agent_id, known, 0, "completed", row.next))

    def bind(self, rows: IdempotencyRows) -> None:
        """The secret of the store, the ids of its sessions and what was spent, as found, where no row has them yet."""
        for agent, session, run_no, run_id in rows.sessions():
            if self.session_run(rows, agent, session) is None:
                self.hold_session(rows, agent, session, run_no, run_id, None)
        secret = rows.secret()
        if secret is None:
            raise another_secret("is gone")
        first, _ = self.find(rows, FIRST)
        is_bound = spending.bound(rows.vouch_for_amounts)
        if rows.vouch_for_amounts and first.agent_id != is_bound and self._bind_spending(rows):
            first, _ = self.find(rows, FIRST)
        self._write(rows, first._replace(agent_id=is_bound, trace_id=sha256(secret).hexdigest()))

    def _bind_spending(self, rows: IdempotencyRows) -> bool:
        """Whether there was any. Rows of when the store lay in a file before say nothing any more."""
        found = defaultdict[tuple[str, str], list[tuple[str, str]]](list)
        for day, agent_id, model, exact in rows.amounts():
            found[day, agent_id].append((model, exact))
        for whose, amounts in found.items():
            row, is_there = self.find(rows, spending.place(*whose))
            if is_there:
                self._write(rows, row._replace(trace_id=spending.digest(amounts)))
            else:
                self.spend(rows, *whose, [], amounts)
        return bool(found)

    def forget_request(self, rows: IdempotencyRows, place: Place) -> None:
        """Its digest goes with the erasure of its call."""
        row, is_there = self.find(rows, place)
        if is_there:
            self._write(rows, row._replace(request_digest=None))

    def _write(self, rows: IdempotencyRows, row: KeyRow) -> KeyRow:
        written = row._replace(mac=self._mac(self._own_key(), row))
        rows.put(written)
        return written

    # -- as a whole ----------------------------------------------------------------------------------------------------

    def link_all(self, rows: IdempotencyRows, key: SigningKey) -> None:
        """Vouch for what there is, as it is found, in the transaction that the caller has begun."""
        for as_found in (SESSION, spending.SPENT):
            rows.forget(*as_found)
        found = [KeyRow(*FIRST, None, "", "", 0, "released"), *(row for row in rows.all() if row.place != FIRST)]
        for row, following in zip(found, [*(name(row.place) for row in found[1:]), LAST], strict=True):
            linked = row._replace(next=following)
            rows.put(linked._replace(mac=self._mac(key, linked)))
        self.bind(rows)

    def vouch_again(self, rows: IdempotencyRows, key: SigningKey) -> None:
        """Another key signs for the store from here on; what the one before it did not vouch for, this does not."""
        for row in rows.all():
            try:
                self._check(row)
            except (NotAuthentic, KeyUnavailable):
                continue
            rows.put(row._replace(mac=self._mac(key, row)))


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


def is_linked(rows: IdempotencyRows) -> bool:
    """Whether there is the first row, so that it can be told that there is no other."""
    first = rows.nearest(FIRST)
    return first is not None and first.place == FIRST
