"""A campaign of forgeries: every field of every record and every column of every table, changed without the key.

`python -m tests.attacks.forgeries [COUNT] [SEED]`. Each forgery is consistent: digests, links, chains, roots and seals
are computed anew. None may pass `verify` as authentic under the store's public key, and none may lead to a dispatch of
anything but what was approved.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import ReenactError
from reenact.store.checks.verification import verify_run
from reenact.store.keys.ballots import signed as sign_vote
from reenact.store.keys.notes import sign_note
from reenact.store.signing import key_in_memory
from reenact.values.canonical import canonicalize
from tests.attacks.bank import APPROVED, Bank
from tests.attacks.forger import NOTES, Forger
from tests.shares import part_of
from tests.store.copies import copy_store

SPELLED = ("commits.body", "payloads.body", "payloads.id", "commits.id", "commits.digest")
"""Cells that the records' own forgeries rewrite consistently; changed alone they are damage, which others test."""
MACS = ("kept", "gone", "own", "another's")
Change = Callable[[Forger], bool]


@dataclass
class Counted:
    """What a campaign has seen."""

    forgeries: int = 0
    by_place: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    harmless: int = 0
    """Columns that nothing is dispatched by: what was approved was sent, or nothing."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} of {place}" for place, count in sorted(self.by_place.items()))
        first = ", ".join(f"{code} {count}" for code, count in self.found.most_common(8))
        return (
            f"{self.forgeries} forgeries ({kinds}): {len(self.wrong)} passed; {self.refused} runs refused, "
            f"{self.harmless} changes of no commit, after which what was approved was sent; found first by {first}"
        )


# -- what can be changed ----------------------------------------------------------------------------------------------


def other_value(value: Any, chance: random.Random) -> Any:
    """Another one of the same look."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((1, 7, 1000))
    if value is None:
        return chance.choice(("ab" * 32, 1, "x"))
    if not isinstance(value, str) or not value:
        return "x"
    for words in WORDS:
        if value in words:
            return chance.choice([word for word in words if word != value])
    at = chance.randrange(len(value))
    letters = "0123456789abcdef" if value[at] in "0123456789abcdef" else "abcdefghijklmnop"
    letter = chance.choice([each for each in letters if each != value[at]])
    return value[:at] + letter + value[at + 1 :]


WORDS = (
    ("APPROVE", "DENY"),
    ("live", "dry_run", "full_replay", "fork"),
    ("PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED", "FAILED", "DENIED"),
    ("Approved by auto", "Approved by policy", "Approved by person"),
    ("READ", "WRITE", "HIGH_RISK"),
    ("read", "write"),
    ("plan", "session"),
    ("supervisor", "key", "budget"),
    ("completed", "failed", "cancelled", "running", "waiting", "held", "pending"),
    ("SUCCESS", "FAILURE", "ERROR"),
    ("attempt", "redispatch", "lost", "served"),
)


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(place, container, key) of every value in a record that holds no other."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        where = f"{place}.{key if isinstance(value, dict) else '[]'}"
        if isinstance(item, dict | list) and item:
            yield from leaves(item, where)
        else:
            yield where, value, key


def record_changes(path: Path, chance: random.Random) -> list[tuple[str, Change]]:
    """One for every field of every record of the run, and for every value that they name."""
    forger = Forger(path)
    found: list[tuple[str, Change]] = []
    for index, line in enumerate(forger.lines()):
        kind = line["entry"]["artifact_type"] if line["kind"] == "entry" else line["kind"]
        for number, (place, _, _) in enumerate(leaves(line)):
            seed = chance.getrandbits(32)
            found.append((f"{kind}{place}", lambda f, i=index, n=number, s=seed: change_leaf(f, i, n, s)))
    for commitment in commitments(forger):
        seed = chance.getrandbits(32)
        found.append(("payload", lambda f, c=commitment, s=seed: change_value(f, c, s)))
    forger.db.close()
    return found


def change_leaf(forger: Forger, index: int, number: int, seed: int) -> bool:
    for at, line in enumerate(forger.lines()):
        if at == index:
            _, holder, key = list(leaves(line))[number]
            holder[key] = other_value(holder[key], random.Random(seed))
    return True


def commitments(forger: Forger) -> list[str]:
    return [row[0].hex() for row in forger.db.execute("SELECT commitment FROM payloads WHERE id >> 36 = 1")]


def change_value(forger: Forger, commitment: str, seed: int) -> bool:
    chance = random.Random(seed)
    try:
        _, value = forger.payload(commitment)
    except (TypeError, ValueError):
        return False  # a packed one
    if not isinstance(value, dict | list) or not value:
        return False
    _, holder, key = chance.choice(list(leaves({"value": value})))
    holder[key] = other_value(holder[key], chance)
    forger.change_payload(commitment, value)
    return True


def column_changes(path: Path, chance: random.Random) -> list[tuple[str, Change]]:
    """One for every cell of the first rows of every table."""
    db = sqlite3.connect(path)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found: list[tuple[str, Change]] = []
    for table in tables:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        for values in db.execute(f"SELECT * FROM {table} LIMIT 3").fetchall():
            row = " AND ".join(f"{column} IS ?" for column in columns)
            for column, value in zip(columns, values, strict=True):
                if f"{table}.{column}" in SPELLED:
                    continue
                other = other_cell(value, chance)
                sql = f"UPDATE {table} SET {column} = ? WHERE {row}"
                found.append((f"{table}.{column}", lambda f, s=sql, v=(other, *values): execute(f, s, v)))
            found.append(
                (f"{table} row", lambda f, t=table, r=row, v=values: execute(f, f"DELETE FROM {t} WHERE {r}", v))
            )
    db.close()
    return found


def vote_changes(path: Path, chance: random.Random) -> list[tuple[str, Change]]:
    """Every field of a vote that waits, and the vote about another run in its place, however they are signed."""
    with closing(sqlite3.connect(path)) as db:
        own, other = db.execute("SELECT run_no, trace_id, body FROM ballots ORDER BY run_no").fetchall()
    found: list[tuple[str, Change]] = []
    at, body = own[:2], own[2]
    for number, (place, _, _) in enumerate(leaves(msgspec.json.decode(body))):
        for signed in SIGNED:
            seed = chance.getrandbits(32)
            change = partial(change_vote, at=at, body=body, number=number, seed=seed, signed=signed)
            found.append((f"ballot{place}", change))
    moved = (partial(move_vote, at=at, other=other[2], renamed=renamed) for renamed in (False, True))
    return [*found, *(("ballot of another", change) for change in moved)]


SIGNED = ("as it was", "by nobody", "by the forger")


def change_vote(forger: Forger, *, at: tuple[int, str], body: bytes, number: int, seed: int, signed: str) -> bool:
    ballot = msgspec.json.decode(body)
    _, holder, key = list(leaves(ballot))[number]
    holder[key] = other_value(holder[key], random.Random(seed))
    return put_vote(forger, at, ballot, signed)


def move_vote(forger: Forger, *, at: tuple[int, str], other: bytes, renamed: bool) -> bool:
    """A vote that a person gave about another call; `renamed`, with the names of this one in it."""
    ballot = msgspec.json.decode(other)
    ((run_id,),) = forger.db.execute("SELECT run_id FROM runs WHERE run_no = ?", at[:1])
    return put_vote(forger, at, {**ballot, "run_id": run_id, "trace_id": at[1]} if renamed else ballot, "as it was")


def put_vote(forger: Forger, at: tuple[int, str], ballot: dict[str, Any], signed: str) -> bool:
    if signed == "by nobody":
        ballot["signature"] = ""
    body = canonicalize(ballot)
    if signed == "by the forger":
        own = key_in_memory()
        ((store_id,),) = forger.db.execute("SELECT value FROM store WHERE key = 'store_id'")
        body = sign_vote(own, store_id, ballot["said"], run_id=str(ballot["run_id"]), trace_id=str(ballot["trace_id"]))
        forger.db.execute("INSERT INTO keys VALUES (?, ?)", (own.kid, own.public_key))
    forger.db.execute("UPDATE ballots SET body = ? WHERE run_no = ? AND trace_id = ?", (body, *at))
    forger.db.execute("UPDATE runs SET status = 'pending' WHERE run_no = ?", at[:1])
    return True


def note_changes(path: Path, chance: random.Random) -> list[tuple[str, Change]]:
    """Every field of every note, of every record that one holds, and of every erasure, with the digests that follow."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT id, schema, record FROM notes WHERE record IS NOT NULL").fetchall()
        erased = db.execute("SELECT id, body FROM erasures").fetchall()
        bare = db.execute(
            "SELECT id, schema, digest, kid, signature, store_id FROM notes WHERE record IS NULL"
        ).fetchall()
    found: list[tuple[str, Change]] = []
    for row_id, *cells in bare:
        for column, cell in zip(("schema", "digest", "kid", "signature", "store_id"), cells, strict=True):
            sql, values = f"UPDATE notes SET {column} = ? WHERE id = ?", (other_cell(cell, chance), row_id)
            found.append((f"note {cells[0]} {column}", partial(execute, sql=sql, parameters=values)))
        gone = partial(execute, sql="DELETE FROM notes WHERE id = ?", parameters=(row_id,))
        found.append((f"note {cells[0]} gone", gone))
    for row_id, schema, record in rows:
        for number, (place, _, _) in enumerate(leaves(msgspec.json.decode(record))):
            for signed in SIGNED:
                seed = chance.getrandbits(32)
                change = partial(change_note, row_id=row_id, record=record, number=number, seed=seed, signed=signed)
                found.append((f"note {schema}{place}", change))
    for row_id, body in erased:
        for number, (place, _, key) in enumerate(leaves(msgspec.json.decode(body))):
            if key != "digest":
                seed = chance.getrandbits(32)
                found.append((f"note erasure{place}", partial(change_erasure, row_id=row_id, number=number, seed=seed)))
    return found


def change_note(forger: Forger, *, row_id: int, record: bytes, number: int, seed: int, signed: str) -> bool:
    value = msgspec.json.decode(record)
    _, holder, key = list(leaves(value))[number]
    holder[key] = other_value(holder[key], random.Random(seed))
    raw = canonicalize(value)
    digest = sha256(raw).hexdigest()
    ((schema, store_id),) = forger.db.execute("SELECT schema, store_id FROM notes WHERE id = ?", (row_id,)).fetchall()
    row: dict[str, object] = {"record": raw, "digest": digest}
    if signed == "by the forger":
        own = key_in_memory()
        note = sign_note(own, schema, store_id, digest)
        row |= {"kid": own.kid, "signature": note.signature}
        forger.db.execute("INSERT INTO keys VALUES (?, ?)", (own.kid, own.public_key))
    elif signed == "by nobody":
        row["signature"] = bytes(64)
    sets = ", ".join(f"{column} = ?" for column in row)
    return execute(forger, f"UPDATE notes SET {sets} WHERE id = ?", (*row.values(), row_id))


def change_erasure(forger: Forger, *, row_id: int, number: int, seed: int) -> bool:
    """Who, why or what, with every digest of the chain behind it, and of the notes."""
    last, changed = None, {}
    for at, body in forger.db.execute("SELECT id, body FROM erasures ORDER BY id").fetchall():
        record = msgspec.json.decode(body)
        if at == row_id:
            _, holder, key = list(leaves(record))[number]
            holder[key] = other_value(holder[key], random.Random(seed))
        for key, value in record.items():
            record[key] = changed.get(value, value) if isinstance(value, str) else value
        old = record.pop("digest")
        record["digest"] = changed[old] = sha256(canonicalize(record)).hexdigest()
        forger.db.execute("UPDATE erasures SET body = ? WHERE id = ?", (canonicalize(record), at))
        forger.db.execute("UPDATE notes SET digest = ? WHERE digest = ?", (record["digest"], old))
        last = record
    return last is not None


def other_cell(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bytes):
        at = chance.randrange(len(value)) if value else 0
        return value[:at] + bytes([(value[at] if value else 0) ^ 1]) + value[at + 1 :]
    return other_value(value, chance)


def execute(forger: Forger, sql: str, parameters: tuple[Any, ...]) -> bool:
    try:
        return forger.db.execute(sql, parameters).rowcount > 0
    except (sqlite3.Error, OverflowError):
        return False


# -- what comes of it -------------------------------------------------------------------------------------------------


class Campaign:
    """Forges copies of stores in which a payment stands at every place that it can stand at."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance, self.counted = folder, random.Random(seed), Counted()
        self.stores: dict[str, tuple[Bank, str, int]] = {}
        for name in ("paid", "waiting", "approved", "cut_off", "session", "voted", "refused", "kept"):
            bank = Bank(folder / name)
            run_id = bank.cut_off("before_dispatch") if name == "cut_off" else getattr(bank, name)()
            self.stores[name] = (bank, run_id, len(bank.payments()))
        self.keys: dict[str, str] = {}
        for bank, _, _ in self.stores.values():
            runtime = bank.runtime()
            self.keys |= {runtime.store.signing_key.kid: runtime.store.signing_key.public_key}
            runtime.close()

    def run(self, count: int) -> Counted:
        """The fields in turns over all stores, again with other values until there are as many."""
        while self.counted.forgeries < count:
            cases = [
                (name, place, change)
                for name, (bank, _, _) in self.stores.items()
                for place, change in self.changes(name, bank.path)
            ]
            self.chance.shuffle(cases)
            for name, place, change in cases[: count - self.counted.forgeries]:
                self.forge(name, place, change)
        return self.counted

    def changes(self, name: str, path: Path) -> list[tuple[str, Change]]:
        if name in ("voted", "refused"):
            return vote_changes(path, self.chance)
        if name == "kept":
            return note_changes(path, self.chance)
        return [*record_changes(path, self.chance), *column_changes(path, self.chance)]

    def forge(self, name: str, place: str, change: Change) -> None:
        original, run_id, _ = self.stores[name]
        bank = Bank(self.folder / "forged")
        copy_store(original.path, bank.path)
        bank.forget()
        before = evidence(bank.path)
        forger = Forger(bank.path, note=self.chance.choice(NOTES))
        if not change(forger):
            forger.db.close()
            return
        mac = self.chance.choice(MACS)
        first = place.split(".", maxsplit=1)[0].split(" ", maxsplit=1)[0]
        kind = "votes" if first == "ballot" else "notes" if first == "note" else "columns"
        if kind == "columns" and (("." in place and first not in ("commits", "notes")) or place == "payload"):
            replace_macs(forger, mac)
        forger.write()
        self.counted.forgeries += 1
        self.counted.by_place[kind if kind != "columns" or first in tables(bank.path) else "records"] += 1
        forged = kind in ("votes", "notes") or evidence(bank.path) != before
        aside = bank.path.with_name("aside")
        key = Path(f"{bank.path}.key")
        as_owner = self.chance.random() < 0.5  # else as somebody who has the public key alone
        if not as_owner:
            key.replace(aside)
        if kind != "votes":  # which are nothing that is told, before somebody has heard them
            self.judge_verify(bank, name, run_id, place, forged=forged)
        if not as_owner:
            aside.replace(key)
        self.judge_dispatch(bank, name, run_id, place, forged=forged)

    def judge_verify(self, bank: Bank, name: str, run_id: str, place: str, *, forged: bool) -> None:
        try:
            verified = verify_run(str(bank.path), run_id, trusted=self.keys)
        except ReenactError as error:
            self.counted.found[error.code] += 1
            return
        report = verified.report
        first = report.first_break
        code = first.code if first is not None else verified.differences[0].table if verified.differences else "absent"
        self.counted.found[code] += 1
        if forged and report.authenticity == "holds" and verified.exit_code in (0, 4):
            self.counted.wrong.append(f"{name}: {place} passes verify as authentic")

    def judge_dispatch(self, bank: Bank, name: str, run_id: str, place: str, *, forged: bool) -> None:
        go_on(bank, run_id)
        payments = bank.payments()
        if name in ("voted", "refused"):  # the other run goes on by the vote that is its own
            with closing(sqlite3.connect(bank.path)) as db:
                status = db.execute("SELECT status FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0]
            if status == "completed" or any(payment != APPROVED for payment in payments) or len(payments) > 1:
                self.counted.wrong.append(f"{name}: {place} led to {payments}")
            self.counted.refused += 1
            return
        allowed = [APPROVED] if name in ("approved", "cut_off") else []
        if any(payment not in allowed for payment in payments) or (forged and payments):
            self.counted.wrong.append(f"{name}: {place} led to {payments}")
        elif payments:
            self.counted.harmless += 1
        else:
            self.counted.refused += name != "paid"


def replace_macs(forger: Forger, mac: str) -> None:
    if mac == "gone":
        forger.db.execute("UPDATE commits SET mac = NULL")
    elif mac == "own":
        forger.db.execute("UPDATE commits SET mac = CAST(substr(mac, 1, 8) || randomblob(32) AS BLOB)")
    elif mac == "another's":
        forger.db.execute("UPDATE commits SET mac = (SELECT mac FROM commits ORDER BY id DESC LIMIT 1)")


def go_on(bank: Bank, run_id: str) -> None:
    """Every way to take a run up again, as its owner would without having looked."""
    try:
        runtime = bank.runtime()
    except ReenactError:
        return
    with suppress(ReenactError):
        runtime.recover()
    with suppress(ReenactError):
        runtime.resume(run_id)
    with suppress(ReenactError), runtime.session(id="till-1", agent_id="clerk") as session:
        session.call("rate", {"currency": "EUR"})
    runtime.close()


def evidence(path: Path) -> list[Any]:
    """What is told of the run, whatever bytes it is packed in. A value that is gone tells nothing else."""
    with sqlite3.connect(path) as db:
        db.text_factory = bytes
        return db.execute("SELECT id, digest FROM commits").fetchall()


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as db:
        return {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def campaign(count: int, seed: int) -> Counted:
    memory = Path("/dev/shm")  # where there is one: nothing here has to survive
    with tempfile.TemporaryDirectory(prefix="forgeries-", dir=memory if memory.is_dir() else None) as folder:
        return Campaign(Path(folder), seed).run(count)


def main() -> int:
    count, seed = part_of(*(int(word) for word in (*sys.argv[1:3], *("1500", "20261116")[len(sys.argv[1:3]) :])))
    began = time.monotonic()
    counted = campaign(count, seed)
    print(f"{counted}; seed {seed}, {time.monotonic() - began:.0f} s")
    for each in counted.wrong[:40]:
        print(f"  {each}")
    return 1 if counted.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
