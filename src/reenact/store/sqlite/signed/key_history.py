"""Whose keys sign for a store file: the rows in which they begin, are rotated and replaced."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256

import msgspec

from reenact.contracts.records import ENDED, Seal
from reenact.errors import KeyUnavailable, LockAcquireFailed, NotAuthentic, UsageError
from reenact.journal.chain import encode
from reenact.store.base import KeyKeeper, NeedingRun
from reenact.store.keys.command import CommandKey
from reenact.store.keys.here import VARIABLE, KeysHere
from reenact.store.keys.history import (
    KINDS,
    SEALED_ERASURES,
    Beginning,
    Head,
    KeyHistory,
    Replacement,
    Rotation,
    SealedErasures,
    read_history,
)
from reenact.store.keys.notes import sign_at_once, sign_note
from reenact.store.location import to_type
from reenact.store.naming import part, read_lines
from reenact.store.owner import owner_is_gone
from reenact.store.signing import SigningKey, missing_key
from reenact.store.sqlite.connection import Connection
from reenact.store.sqlite.keys import KeyRows
from reenact.store.sqlite.signed import notes
from reenact.values.clock import Clock
from reenact.values.digest import ZERO_DIGEST

LAST_SEALED = "SELECT record FROM notes WHERE schema = ? AND record IS NOT NULL ORDER BY id DESC LIMIT 1"


class KeyTable(KeyKeeper):
    """The keys of one store: those on record, and those that are here."""

    def __init__(self, writer: Connection, store_id: str, here: KeysHere, clock: Clock) -> None:
        self.here = here
        self._writer = writer
        self._store_id = store_id
        self._clock = clock

    def history(self) -> KeyHistory:
        """NotAuthentic where a key was put on record by nobody who may."""
        history = read_history(notes.of_kinds(self._writer, tuple(KINDS)), self._store_id)
        for record in history.replacements:
            # Whoever replaces a key that is lost has the new one. Anybody can write such a note under a key of his own.
            if self.here.get(record.new_kid) is None and self.here.get(record.old_kid) is not None:
                raise NotAuthentic(
                    f"a note says that key {record.old_kid} was lost and {record.new_kid} took its place; the first is "
                    "here, the other is not: put it here, or somebody tampered with the store; see `reenact verify`"
                )
        return history

    def on_record(self) -> dict[str, str]:
        return dict(self._writer.query("SELECT kid, public_key FROM keys ORDER BY kid"))

    # -- which key signs -------------------------------------------------------------------------------------------

    def own_key(self) -> SigningKey:
        """The key that signs for new runs; a new one only in a store that never had any."""
        history, known = self.history(), self.on_record()
        if history.beginning is not None:
            return self._current(history)
        key = self.here.first()
        if not known or self._writer.path == ":memory:":
            key = key or self.here.make(first=True)
        elif key is None or key.kid not in known:
            raise self._missing(min(known), key)
        self._begin(key)
        return key

    def _current(self, history: KeyHistory) -> SigningKey:
        assert history.current is not None
        key = self.here.first() if self.here.given else self.here.get(history.current)
        if key is None or key.kid not in history.keys:
            raise self._missing(history.current, key)
        successor = history.replaced_by(key.kid)
        if successor is not None:
            raise KeyUnavailable(f"key {key.kid} was replaced by {successor}, which is not here", kid=successor)
        return key

    def _missing(self, kid: str, other: SigningKey | None) -> KeyUnavailable:
        if other is None or not self.here.given:
            found = "" if other is None else f" (what lies beside the store is {other.kid})"
            unset = "" if self.here.given else f"{VARIABLE} is not set: name the key there if it lies elsewhere, or "
            where = f"key {kid}, which signs for {self._writer.path}, is not here{found}"
            what = f"{where}: {unset}put it back from a backup"
        else:
            where = f"{VARIABLE} begins with key {other.kid}, which is not on record in {self._writer.path}"
            what = f"{where}: `{to_type(f'sqlite:///{self._writer.path}', 'keys', 'rotate')}` puts it there"
        replace = to_type(f"sqlite:///{self._writer.path}", "keys", "replace", "--lost", "--reason", "…")
        return KeyUnavailable(f"{what}; `{replace}` where {kid} is lost", kid=kid)

    def _begin(self, key: SigningKey) -> None:
        ready(key)
        with self._writer.transaction() as db:
            if db.execute("SELECT 1 FROM notes WHERE schema = 'reenact.signing.v1'").fetchone() is None:
                register(db, key)
                self._write_beginning(db, key)

    def _write_beginning(self, db: sqlite3.Connection, key: SigningKey) -> None:
        record = Beginning(
            erasures=erasures_head(db),
            keys=dict(db.execute("SELECT kid, public_key FROM keys ORDER BY kid").fetchall()),
            seals=seals_head(db),
            ts=self._clock.timestamp(),
        )
        self._write(db, key, record)

    def _write(self, db: sqlite3.Connection, key: SigningKey, record: Beginning | Rotation | Replacement) -> None:
        raw = encode(record)
        notes.write(db, sign_note(key, record.schema, self._store_id, sha256(raw).hexdigest(), raw))

    # -- what people do --------------------------------------------------------------------------------------------

    def rotate(self, who: str) -> Rotation:
        """From the key that signs to a new one: that of the host, or one that is made beside the store."""
        history = self.history()
        if history.beginning is None:
            self.own_key()
            history = self.history()
        assert history.current is not None
        old = self.here.get(history.current)
        if old is None:
            raise self._missing(history.current, None)
        new = self._new_key(history)
        if new is None:
            raise UsageError(
                f"{VARIABLE} begins with key {history.current}, which signs already: put the new one before it; "
                "`reenact keys new FILE` makes one"
            )
        record = Rotation(new_key=new.public_key, new_kid=new.kid, old_kid=old.kid, ts=self._clock.timestamp(), who=who)
        with self._writer.transaction() as db:
            register(db, new)
            self._write(db, old, record)
            self._key_rows(old).vouch_again(db, new)
        return record

    def _key_rows(self, key: SigningKey) -> KeyRows:
        return KeyRows(self._store_id, lambda: key, self.here.get)

    def _new_key(self, history: KeyHistory) -> SigningKey | None:
        """One that never signed here; None where the host names another, but not first."""
        known = {*history.keys, *self.on_record()}
        if self.here.given:
            key = self.here.first()
            if key is None or key.kid in known:
                return None
        else:
            spare = [key for key, _ in self.here.all().values() if key.kid not in known]
            key = spare[0] if spare else self.here.make(first=False)
        ready(key)
        return key

    def replace(self, who: str, reason: str, is_sound: Callable[[str], bool]) -> list[Replacement]:
        """A new key in the place of each that is lost, for the open runs that need it, as they stand and are sound."""
        history = self.history()
        needing = self.needing(history)
        sound = {run.run_id for run in needing if is_sound(run.run_id)}
        current = history.current or next(iter(self.on_record()), None)
        wanted = {run.kid for run in needing} | ({current} if current is not None else set())
        signed_here = {*history.keys} if history.beginning is not None else {*self.on_record()}
        lost = sorted(kid for kid in wanted & signed_here if self.here.get(kid) is None)
        if not lost:
            raise UsageError(
                "no key is lost: each that is needed is here; `reenact keys rotate` makes another one sign"
            )
        new = self._in_place_of(history, current)
        done = []
        with self._writer.transaction() as db:
            refuse_held(db, self._clock)
            if self.needing(history) != needing:
                raise LockAcquireFailed("runs went on meanwhile; try again")
            register(db, new)
            if history.beginning is None:
                self._write_beginning(db, new)
            for kid in lost:
                listed = [run for run in needing if run.kid == kid and run.run_id in sound]
                record = Replacement(
                    new_key=new.public_key, new_kid=new.kid, old_kid=kid, reason=reason,
                    runs=[(run.run_id, run.commits, run.head) for run in listed],
                    ts=self._clock.timestamp(), who=who,
                )  # fmt: skip
                self._write(db, new, record)
                done.append(record)
            if new.kid == current:
                self._key_rows(new).vouch_again(db, new)
            else:
                self._key_rows(new).link_all(db, new)  # as they are found: the lost key cannot tell
        return done

    def _in_place_of(self, history: KeyHistory, current: str | None) -> SigningKey:
        """The key that signs, where only an older one is lost; else a new one."""
        here = None if current is None else self.here.get(current)
        if here is not None and history.replaced_by(here.kid) is None:
            return here
        new = self._new_key(history)
        if new is None:
            raise UsageError(f"put the new key first in {VARIABLE}; `reenact keys new FILE` makes one")
        return new

    def needing(self, history: KeyHistory) -> list[NeedingRun]:
        """Every run that has not ended, the oldest first."""
        found = []
        rows = self._writer.query(f"SELECT run_no, run_id FROM runs WHERE status NOT IN {ENDED} ORDER BY run_no")
        for run_no, run_id in rows:
            last = self._writer.query(
                "SELECT max(id) FROM commits WHERE id > ? AND id < ?", (run_no << 24, (run_no + 1) << 24)
            )[0][0]
            kid = begun_with(self._body(run_no << 24 | 1))
            if last is None or kid is None:
                continue
            with suppress(NotAuthentic):
                kid = history.successor(run_id, kid, partial(self._head_in, run_no))
            head = self._head_in(run_no, last & 0xFFFFFF)
            assert head is not None
            found.append(NeedingRun(run_id, last & 0xFFFFFF, head, kid))
        return found

    def key_for(self, run_id: str, run_no: int, kid: str) -> SigningKey:
        """The key that a run goes on with that began with `kid`; KeyUnavailable where it is not here."""
        wanted = self.history().successor(run_id, kid, partial(self._head_in, run_no))
        key = self.here.get(wanted)
        if key is None:
            raise missing_key(run_id, wanted)
        return key

    def _head_in(self, run_no: int, n: int) -> str | None:
        body = self._body(run_no << 24 | n)
        return None if body is None else sha256(body).hexdigest()

    def _body(self, commit_id: int) -> bytes | None:
        rows = self._writer.query("SELECT id, body FROM commits WHERE id = ?", (commit_id,))
        return self._writer.codec.unpack(rows[0][1]) if rows else None


def begun_with(body: bytes | None) -> str | None:
    """The kid in a run's first commit."""
    for line in read_lines(body or b""):
        kid = part(line, "run").get("capability_key")
        if isinstance(kid, str):
            return kid
    return None


def ready(key: SigningKey) -> None:
    """Before it is on record, all that goes with it is durable."""
    if isinstance(key, CommandKey):
        key.make_mac_key()


def register(db: sqlite3.Connection, key: SigningKey) -> None:
    db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (key.kid, key.public_key))


def refuse_held(db: sqlite3.Connection, clock: Clock) -> None:
    """Whoever works on a run has its key, or its head would be another one at once."""
    rows = db.execute(f"SELECT run_id, owner, expires_ms FROM runs WHERE status NOT IN {ENDED}").fetchall()
    for run_id, owner, expires in rows:
        if owner is not None and clock.now_ms() < expires and not owner_is_gone(owner):
            raise LockAcquireFailed(f"run {run_id} is being worked on; stop what holds it, then replace the key")


def erasures_head(db: sqlite3.Connection | sqlite3.Cursor) -> Head:
    row = db.execute("SELECT id, body FROM erasures ORDER BY id DESC LIMIT 1").fetchone()
    last = next(read_lines(row[1]), {}).get("digest") if row else ZERO_DIGEST
    return Head(count=row[0] if row else 0, head=str(last))


def sign_erasures(db: sqlite3.Cursor, key: SigningKey, store_id: str, seal: Seal) -> None:
    """With the first seal after an erasure: how many there are and the head of their chain, signed."""
    there = erasures_head(db)
    if there.count == 0:
        return
    last = db.execute(LAST_SEALED, (SEALED_ERASURES,)).fetchone()
    with suppress(msgspec.DecodeError, UnicodeDecodeError):  # one that cannot be read has told nothing
        if last is not None and msgspec.json.decode(last[0], type=SealedErasures).erasures == there:
            return
    raw = encode(SealedErasures(erasures=there, seal_digest=str(seal.seal_digest)))
    notes.write(db, sign_at_once(key, SEALED_ERASURES, store_id, sha256(raw).hexdigest(), raw))


def seals_head(db: sqlite3.Connection) -> Head:
    row = db.execute("SELECT id, seal_digest FROM seals ORDER BY id DESC LIMIT 1").fetchone()
    return Head(count=row[0], head=str(row[1])) if row else Head(count=0, head=ZERO_DIGEST)
