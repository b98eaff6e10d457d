"""Whose keys sign for a store: where they begin, are rotated and replaced. The rows are an engine's: `KeyRecords`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Protocol, TypeVar

import msgspec

from reenact.contracts.records import Seal
from reenact.errors import KeyUnavailable, LockAcquireFailed, NotAuthentic, UsageError
from reenact.journal.chain import encode
from reenact.store.base import KeyKeeper, NeedingRun
from reenact.store.beside.idempotency import IdempotencyKeys, IdempotencyRows
from reenact.store.keys.command import CommandKey
from reenact.store.keys.here import VARIABLE, KeysHere
from reenact.store.keys.history import (
    KINDS,
    Beginning,
    Head,
    KeyHistory,
    Replacement,
    Rotation,
    SealedErasures,
    read_history,
)
from reenact.store.keys.notes import Note, sign_note
from reenact.store.location import to_type
from reenact.store.naming import part, read_lines
from reenact.store.owner import owner_is_gone
from reenact.store.signing import SigningKey, missing_key
from reenact.values.clock import Clock
from reenact.values.digest import ZERO_DIGEST

T = TypeVar("T")


class KeyRecords(Protocol):
    """The rows that keys are known by, as a store reads them."""

    url: str
    name: str
    """As messages name the store."""
    in_memory: bool

    def on_record(self) -> dict[str, str]:
        """kid → public key"""

    def notes(self, schemas: tuple[str, ...], /) -> list[Note]:
        """Those that hold their record, in the order of their writing."""

    def open_runs(self) -> list[tuple[int, str]]:
        """(number, id), the oldest first."""

    def commits(self, run_no: int, /) -> int | None: ...
    def body(self, run_no: int, n: int, /) -> bytes | None: ...
    def transact(self, act: Callable[[KeyWriting], T], /) -> T:
        """What `act` does, in one transaction, in which nobody else changes keys. It may be called again."""


class KeyWriting(Protocol):
    """The same inside a transaction."""

    idempotency: IdempotencyRows

    def has_begun(self) -> bool:
        """Whether there is a note about the first key."""

    def on_record(self) -> dict[str, str]: ...
    def put_on_record(self, key: SigningKey, /) -> None:
        """Nothing where it is there."""

    def write(self, note: Note, /) -> None: ...
    def last_erasure(self) -> tuple[int, bytes] | None:
        """(number, record)"""

    def last_seal(self) -> tuple[int, str] | None:
        """(number, digest)"""

    def leases(self) -> list[tuple[str, str | None, bool]]:
        """(run id, owner, whether it is still in time) of every run that has not ended."""


class KeyTable(KeyKeeper):
    """The keys of one store: those on record, and those that are here."""

    def __init__(self, records: KeyRecords, store_id: str, here: KeysHere, clock: Clock) -> None:
        self.here = here
        self._records = records
        self._store_id = store_id
        self._clock = clock

    def history(self) -> KeyHistory:
        """NotAuthentic where a key was put on record by nobody who may."""
        history = read_history(self._records.notes(tuple(KINDS)), self._store_id)
        for record in history.replacements:
            # Whoever replaces a key that is lost has the new one. Anybody can write such a note under a key of his own.
            if self.here.get(record.new_kid) is None and self.here.get(record.old_kid) is not None:
                raise NotAuthentic(
                    f"a note says that key {record.old_kid} was lost and {record.new_kid} took its place; the first is "
                    "here, the other is not: put it here, or somebody tampered with the store; see `reenact verify`"
                )
        return history

    def on_record(self) -> dict[str, str]:
        return self._records.on_record()

    # -- which key signs -------------------------------------------------------------------------------------------

    def own_key(self) -> SigningKey:
        """The key that signs for new runs; a new one only in a store that never had any."""
        history, known = self.history(), self.on_record()
        if history.beginning is not None:
            return self._current(history)
        key = self.here.first()
        if not known or self._records.in_memory:
            key = key or self.here.make(first=True)
        elif key is None or key.kid not in known:
            raise self._missing(min(known), key)
        if key.kid not in self._begin(key):  # another host was faster, with a key of its own
            raise self._missing(min(self.on_record()), key)
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
            where = f"key {kid}, which signs for {self._records.name}, is not here{found}"
            what = f"{where}: {unset}put it back from a backup"
        else:
            where = f"{VARIABLE} begins with key {other.kid}, which is not on record in {self._records.name}"
            what = f"{where}: `{to_type(self._records.url, 'keys', 'rotate')}` puts it there"
        replace = to_type(self._records.url, "keys", "replace", "--lost", "--reason", "…")
        return KeyUnavailable(f"{what}; `{replace}` where {kid} is lost", kid=kid)

    def _begin(self, key: SigningKey) -> dict[str, str]:
        """The keys that are on record then."""
        ready(key)

        def begin(db: KeyWriting) -> dict[str, str]:
            if not db.has_begun():
                db.put_on_record(key)
                self._write_beginning(db, key)
            return db.on_record()

        return self._records.transact(begin)

    def _write_beginning(self, db: KeyWriting, key: SigningKey) -> None:
        last = db.last_seal()
        record = Beginning(
            erasures=erasures_head(db.last_erasure()),
            keys=db.on_record(),
            seals=Head(count=last[0], head=last[1]) if last else Head(count=0, head=ZERO_DIGEST),
            ts=self._clock.timestamp(),
        )
        self._write(db, key, record)

    def _write(self, db: KeyWriting, key: SigningKey, record: Beginning | Rotation | Replacement) -> None:
        raw = encode(record)
        db.write(sign_note(key, record.schema, self._store_id, sha256(raw).hexdigest(), raw))

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

        def rotate(db: KeyWriting) -> None:
            if new.kid not in db.on_record():
                db.put_on_record(new)
                self._write(db, old, record)
                self._idempotency(old).vouch_again(db.idempotency, new)

        self._records.transact(rotate)
        return record

    def _idempotency(self, key: SigningKey) -> IdempotencyKeys:
        return IdempotencyKeys(self._store_id, lambda: key, self.here.get)

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
        records = [
            Replacement(
                new_key=new.public_key, new_kid=new.kid, old_kid=kid, reason=reason,
                runs=[(run.run_id, run.commits, run.head) for run in needing if run.kid == kid and run.run_id in sound],
                ts=self._clock.timestamp(), who=who,
            )
            for kid in lost
        ]  # fmt: skip

        def put_in_place(db: KeyWriting) -> None:
            now = self.history()
            if all(record in now.replacements for record in records):  # by a try of which nobody knew what became of it
                return
            refuse_held(db)
            if self.needing(now) != needing:
                raise LockAcquireFailed("runs went on meanwhile; try again")
            db.put_on_record(new)
            if history.beginning is None:
                self._write_beginning(db, new)
            for record in records:
                self._write(db, new, record)
            if new.kid == current:
                self._idempotency(new).vouch_again(db.idempotency, new)
            else:
                self._idempotency(new).link_all(db.idempotency, new)  # as they are found: the lost key cannot tell

        self._records.transact(put_in_place)
        return records

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
        for run_no, run_id in self._records.open_runs():
            last, kid = self._records.commits(run_no), begun_with(self._records.body(run_no, 1))
            if last is None or kid is None:
                continue
            with suppress(NotAuthentic):
                kid = history.successor(run_id, kid, partial(self._head_in, run_no))
            head = self._head_in(run_no, last)
            assert head is not None
            found.append(NeedingRun(run_id, last, head, kid))
        return found

    def key_for(self, run_id: str, run_no: int, kid: str) -> SigningKey:
        """The key that a run goes on with that began with `kid`; KeyUnavailable where it is not here."""
        wanted = self.history().successor(run_id, kid, partial(self._head_in, run_no))
        key = self.here.get(wanted)
        if key is None:
            raise missing_key(run_id, wanted)
        return key

    def _head_in(self, run_no: int, n: int) -> str | None:
        body = self._records.body(run_no, n)
        return None if body is None else sha256(body).hexdigest()


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


def refuse_held(db: KeyWriting) -> None:
    """Whoever works on a run has its key, or its head would be another one at once."""
    for run_id, owner, in_time in db.leases():
        if owner is not None and in_time and not owner_is_gone(owner):
            raise LockAcquireFailed(f"run {run_id} is being worked on; stop what holds it, then replace the key")


def erasures_head(last: tuple[int, bytes] | None) -> Head:
    if last is None:
        return Head(count=0, head=ZERO_DIGEST)
    return Head(count=last[0], head=str(next(read_lines(last[1]), {}).get("digest")))


def sealed_erasures(last: tuple[int, bytes] | None, signed: bytes | None, seal: Seal) -> bytes | None:
    """What is signed with the first seal after an erasure: how many there are and the head of their chain.

    `last` is the newest erasure, `signed` what was signed of them last; None where that says it already.
    """
    there = erasures_head(last)
    if there.count == 0:
        return None
    with suppress(msgspec.DecodeError, UnicodeDecodeError):  # one that cannot be read has told nothing
        if signed is not None and msgspec.json.decode(signed, type=SealedErasures).erasures == there:
            return None
    return encode(SealedErasures(erasures=there, seal_digest=str(seal.seal_digest)))
