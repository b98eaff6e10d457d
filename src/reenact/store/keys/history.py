"""Which keys have signed for a store, from its first on: nothing is believed without a note. docs/spec/store_sqlite.md.

The first note lists the keys that there were; a rotation is signed by the key before it, a replacement of a lost key by
the new one alone, for the runs and heads that it lists.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

import msgspec

from reenact.contracts.artifacts import Record
from reenact.errors import NotAuthentic
from reenact.store.keys.notes import Note, is_signed_note
from reenact.values.threads import build

SEE = "see `reenact verify`"


class Head(Record, frozen=True, kw_only=True):
    """The last of an append-only chain, and how many there are."""

    count: int
    head: str


class Beginning(Record, frozen=True, kw_only=True):
    """From here on everything is signed; what was there before is counted, and not vouched for."""

    erasures: Head
    keys: dict[str, str]
    """kid → public key"""
    schema: Literal["reenact.signing.v1"] = "reenact.signing.v1"
    seals: Head
    ts: str


class Rotation(Record, frozen=True, kw_only=True):
    new_key: str
    new_kid: str
    old_kid: str
    schema: Literal["reenact.key_rotation.v1"] = "reenact.key_rotation.v1"
    ts: str
    who: str


class Replacement(Record, frozen=True, kw_only=True):
    new_key: str
    new_kid: str
    old_kid: str
    reason: str
    runs: list[tuple[str, int, str]]
    """(run_id, commits, run_head) of each open run that needs the lost key"""
    schema: Literal["reenact.key_replacement.v1"] = "reenact.key_replacement.v1"
    ts: str
    who: str


class SealedErasures(Record, frozen=True, kw_only=True):
    """What was erased in the store by the time of a seal: goes with the first one after an erasure."""

    erasures: Head
    schema: Literal["reenact.erasures.v1"] = "reenact.erasures.v1"
    seal_digest: str


SEALED_ERASURES = "reenact.erasures.v1"
KINDS: dict[str, type[Beginning | Rotation | Replacement]] = {
    "reenact.signing.v1": Beginning,
    "reenact.key_rotation.v1": Rotation,
    "reenact.key_replacement.v1": Replacement,
}


@dataclass(slots=True)
class KeyHistory:
    """As far as it is signed; NotAuthentic at the first note that is not."""

    beginning: Beginning | None = None
    keys: dict[str, str] = field(default_factory=dict)
    """kid → public key, of those that were there or that somebody vouched for"""
    since: dict[str, str] = field(default_factory=dict)
    current: str | None = None
    """The newest."""
    replacements: list[Replacement] = field(default_factory=list)

    def take(self, note: Note, store_id: str) -> None:
        record = decoded(note, store_id)
        if isinstance(record, Beginning):
            if self.beginning is not None:
                raise NotAuthentic(f"what signs for the store has two beginnings; {SEE}")
            self._require(note, record.keys, "the beginning of what is signed")
            self.beginning, self.current = record, note.kid
            for kid, key in record.keys.items():
                self._add(kid, key, record.ts)
            return
        if self.beginning is None or record.old_kid not in self.keys:
            raise NotAuthentic(f"key {record.new_kid} follows {record.old_kid}, which never signed here; {SEE}")
        if isinstance(record, Rotation):
            if note.kid != record.old_kid:
                raise NotAuthentic(f"the rotation to key {record.new_kid} is signed by another than {record.old_kid}")
            self._require(note, self.keys, f"the rotation to key {record.new_kid}")
        else:
            self._require(note, {record.new_kid: record.new_key}, f"the replacement by key {record.new_kid}")
            self.replacements.append(record)
        self._add(record.new_kid, record.new_key, record.ts)
        self.current = record.new_kid

    def _require(self, note: Note, keys: dict[str, str], what: str) -> None:
        if not is_signed_note(keys, note):
            raise NotAuthentic(f"{what} is not signed by key {note.kid}; {SEE}")

    def _add(self, kid: str, key: str, ts: str) -> None:
        if kid_of(key) != kid:
            raise NotAuthentic(f"a key on record is not the one that its name {kid} says; {SEE}")
        self.keys[kid] = key
        self.since.setdefault(kid, ts)

    def replaced_by(self, kid: str) -> str | None:
        return next((record.new_kid for record in self.replacements if record.old_kid == kid), None)

    def successor(self, run_id: str, kid: str, head_of: Callable[[int], str | None]) -> str:
        """The key that a run goes on with that began with `kid`: another one only from a head that is on record."""
        for record in self.replacements:
            for listed, commits, head in record.runs:
                if listed == run_id and record.old_kid == kid:
                    if head_of(commits) != head:
                        raise NotAuthentic(
                            f"run {run_id}: key {kid} was replaced for another commit {commits} than there is; {SEE}"
                        )
                    kid = record.new_kid
                    break
        return kid

    def taken_over(self, run_id: str, kid: str, n: int, head: str) -> str | None:
        """The key that took over from a lost one at commit `n` or later; NotAuthentic where that is another commit.

        What is before the commit that the replacement names is vouched for by it, through the chain.
        """
        for record in self.replacements:
            for listed, commits, known in record.runs:
                if listed == run_id and record.old_kid == kid and n <= commits:
                    if n == commits and head != known:
                        raise NotAuthentic(f"run {run_id}: key {kid} was replaced for another commit {n}; {SEE}")
                    return record.new_kid
        return None


def read_history(notes: Iterable[Note], store_id: str) -> KeyHistory:
    """From the notes of `KINDS`, in order."""
    history = KeyHistory()
    for note in notes:
        history.take(note, store_id)
    return history


def decoded(note: Note, store_id: str) -> Beginning | Rotation | Replacement:
    """The record that a note holds, if it is of this store and the one that was signed."""
    raw = note.record
    if not isinstance(raw, bytes) or sha256(raw).hexdigest() != note.digest or note.store_id != store_id:
        raise NotAuthentic(f"a note about the keys is not the one that was signed; {SEE}")
    try:
        return msgspec.json.decode(raw, type=KINDS[note.schema])
    except msgspec.DecodeError:
        raise NotAuthentic(f"a note about the keys cannot be read; {SEE}") from None


def kid_of(public_key: str) -> str | None:
    try:
        return sha256(urlsafe_b64decode(public_key + "=")).hexdigest()[:16]
    except ValueError:
        return None


build(*KINDS.values())
