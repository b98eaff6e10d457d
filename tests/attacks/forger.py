"""Somebody who can write to a store, knows the format, and has no key: changes a record and all that follows from it.

Digests, links, chains, roots and seals are computed anew, in the journal and beside it. What a key made is left as it
is, taken out, or copied from elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from reenact.journal.chain import MerkleTree
from reenact.store.compression import Codec
from reenact.store.keys.notes import sign_note
from reenact.store.signing import key_in_memory
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST

Record = dict[str, Any]
NOTES = ("kept", "gone", "moved", "his own", "in its name")
OWN = {"attempt": "digest", "vote": "digest", "run_checkpoint": "digest", "seal": "seal_digest"}


@dataclass
class Forger:
    """Works on one run of a store file."""

    path: Path
    run_no: int = 1
    new: dict[str, str] = field(default_factory=dict)
    """Digests and commitments that are others now."""
    note: str = "kept"
    """What he does about the note about the seal, if that is another then."""

    def __post_init__(self) -> None:
        self.db = sqlite3.connect(self.path, isolation_level=None)
        for (name,) in self.db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            self.db.execute(f"DROP TRIGGER {name}")
        codec = Codec()
        rows = self.db.execute("SELECT id, body FROM commits WHERE id >> 24 = ? ORDER BY id", (self.run_no,)).fetchall()
        self.commits = {
            row_id: [msgspec.json.decode(raw) for raw in codec.unpack(body).splitlines()] for row_id, body in rows
        }

    def lines(self) -> Iterator[Record]:
        for lines in self.commits.values():
            yield from lines

    def payload(self, commitment: str) -> tuple[int, object]:
        """(row, value)"""
        rows = self.db.execute("SELECT id, body FROM payloads WHERE commitment = ?", (bytes.fromhex(commitment),))
        row_id, stored = rows.fetchone()
        return row_id, msgspec.json.decode(stored[33:])

    def change_payload(self, commitment: str, value: object) -> None:
        """Put another value there, under the commitment that it has then."""
        row_id, _ = self.payload(commitment)
        envelope = bytes(32) + canonicalize(value)
        other = sha256(envelope)
        self.db.execute(
            "UPDATE payloads SET commitment = ?, body = ? WHERE id = ?", (other.digest(), b"\0" + envelope, row_id)
        )
        self.new[commitment] = other.hexdigest()

    def arguments_of(self, step_id: str) -> str:
        for line in self.lines():
            artifact = line.get("artifact", {})
            if artifact.get("meta", {}).get("step_id") == step_id:
                return str(artifact["proposal"]["args"]["$commit"])
        raise LookupError(step_id)

    def write(self) -> None:
        """All of it anew, and all digests right."""
        previous, codec = ZERO_DIGEST, Codec()
        self.heads: dict[str, Record] = {}
        self.attempts = MerkleTree()
        for row_id, lines in self.commits.items():
            body = b""
            lines[0]["prev"] = previous
            for line in lines:
                body += self.rewritten(line, body) + b"\n"
            previous = sha256(body).hexdigest()
            row = (codec.pack_body(body), bytes.fromhex(previous), row_id)
            self.db.execute("UPDATE commits SET body = ?, digest = ? WHERE id = ?", row)
        self.db.close()

    def rewritten(self, line: Record, before: bytes) -> bytes:
        text = canonicalize(line)
        for old, other in self.new.items():
            text = text.replace(old.encode(), other.encode())
        line = msgspec.json.decode(text)
        kind = line.get("kind")
        if kind == "entry":
            self.entry(line)
        elif kind in OWN and isinstance(line.get(kind), dict):
            self.record(line[kind], OWN[str(kind)], before)
            if kind == "attempt":
                named = {key: line["attempt"].get(key) for key in ("digest", "ordinal", "trace_id")}
                self.attempts.append(canonicalize(named))
        elif kind == "checkpoint" and isinstance(line["checkpoint"].get("checkpoint_state"), dict):
            state = line["checkpoint"]["checkpoint_state"]
            line["checkpoint"]["checkpoint_digest"] = sha256(canonicalize(state)).hexdigest()
        return canonicalize(line)

    def entry(self, line: Record) -> None:
        artifact, entry = line["artifact"], line["entry"]
        entry["artifact_digest"] = self.digested(artifact, "_digest")
        head = self.heads.get(str(entry.get("trace_id")), {}).get("head", ZERO_DIGEST)
        entry["prev_entry_digest"] = head
        self.heads[str(entry.get("trace_id"))] = {
            "head": self.digested(entry, "entry_digest"),
            "state": entry.get("to_state"),
            "step_index": len(self.heads) if head == ZERO_DIGEST else self.heads[str(entry["trace_id"])]["step_index"],
            "trace_id": entry.get("trace_id"),
        }

    def record(self, record: Record, own: str, before: bytes) -> None:
        if own == "seal_digest" or "run_head" in record:
            record["run_head"] = sha256(before).hexdigest()
            tree = MerkleTree()
            for leaf in sorted(self.heads.values(), key=lambda leaf: leaf["step_index"]):
                tree.append(canonicalize(leaf))
            record["root"] = tree.root()
            if own == "seal_digest":
                record["attempts_root"] = self.attempts.root()
        before_it = str(record.get(own))
        self.digested(record, own)
        if own in ("seal_digest", "digest"):
            self.sign(before_it, record)
        if own == "seal_digest":
            seal = (record[own], self.run_no)
            self.db.execute("UPDATE seals SET seal_digest = ? WHERE run_no = ?", seal)

    def sign(self, before: str, record: Record) -> None:
        """Whoever has no key leaves the note, takes it out, gives it another digest, or signs with a key of his own."""
        after = str(record.get("seal_digest") or record.get("digest"))
        if self.note == "kept" or after == before:
            return
        if self.note == "gone":
            self.db.execute("DELETE FROM notes WHERE digest = ?", (before,))
            return
        self.db.execute("UPDATE notes SET digest = ? WHERE digest = ?", (after, before))
        rows = self.db.execute("SELECT id, schema, store_id, kid FROM notes WHERE digest = ?", (after,)).fetchall()
        for row_id, schema, store_id, kid in rows if self.note != "moved" else ():
            own = key_in_memory()
            note = sign_note(own, schema, store_id, after)
            named = own.kid if self.note == "his own" else kid
            self.db.execute("UPDATE notes SET kid = ?, signature = ? WHERE id = ?", (named, note.signature, row_id))
            if self.note == "his own":
                self.db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (own.kid, own.public_key))

    def digested(self, record: Record, own: str) -> str:
        old = record.pop(own, None)
        record[own] = sha256(canonicalize(record)).hexdigest()
        if isinstance(old, str) and len(old) == 64:
            self.new[old] = record[own]
        return str(record[own])


def forge(path: Path, change: Callable[[Forger], object], *, mac: str = "kept", run_no: int = 1) -> None:
    """Make a change and all that follows from it; `mac` of each commit is kept, taken out, or somebody's own."""
    forger = Forger(path, run_no)
    change(forger)
    if mac == "gone":
        forger.db.execute("UPDATE commits SET mac = NULL")
    elif mac == "own":
        forger.db.execute("UPDATE commits SET mac = CAST(substr(mac, 1, 8) || randomblob(32) AS BLOB)")
    forger.write()
