"""Kinds of tampering with a store's file: rows changed, taken out, rolled back; its log cut; its past rewritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reenact.errors import ReenactError
from reenact.record.erase import erase
from reenact.replay.runtime import Runtime
from reenact.skills.declare import skill
from reenact.store.checks.verification import verify_run
from reenact.store.compression import Codec
from reenact.store.sqlite.log.rows import LEVEL_BITS
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from reenact.verify.log.anchoring import NOBODY, Believed
from reenact.verify.log.checkpoint import Checkpoint, read_checkpoint
from tests.store.checks.store_file import query, tamper
from tests.store.copies import copy_store

EXPECTED = Path(__file__).with_name("expected_stores.json")
Told = dict[str, Any]
Change = Callable[["StoreFile", Path], object]


@skill("refund", version="1.0.0", tool_class="write", honours_key=True)
def refund(cents: int) -> int:
    return cents


def story(path: Path, *amounts: int) -> list[str]:
    """Runs whose ids and times are those of every other such story: what differs is what was done."""
    clock = FixedClock()
    store = SqliteStore(str(path), clock=clock)
    store._follower.close()  # one head at the end, on a slow machine too
    runtime = Runtime(store, skills=[refund], clock=clock)
    for amount in amounts:
        with runtime.session(agent_id="billing") as session:
            assert session.call("refund", {"cents": amount}).output == amount
    store.log.advance()
    store.close()
    return [str(row[0]) for row in query(path, "SELECT run_id FROM runs ORDER BY run_no")]


class StoreFile:
    """A store with four runs, of the second of which a value was erased; as it was before the last, and its head."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "store.db"
        self.runs = story(self.path, 1999, 500, 250, 75)
        store = SqliteStore(str(self.path), clock=FixedClock())
        erase(store, self.runs[1], "c1", who="kim", reason="asked for")
        head = store.log.rows.newest()
        assert head is not None
        self.kept: Checkpoint = read_checkpoint(store.log.note(head))
        self.keys = {store.signing_key.kid: store.signing_key.public_key}
        store.close()
        self.older = folder / "older.db"
        Path(f"{self.older}.key").write_bytes(Path(f"{self.path}.key").read_bytes())
        Path(f"{self.older}.key").chmod(0o600)
        story(self.older, 1999, 500, 250)
        self.rewritten = folder / "rewritten.db"
        Path(f"{self.rewritten}.key").write_bytes(Path(f"{self.path}.key").read_bytes())
        Path(f"{self.rewritten}.key").chmod(0o600)
        story(self.rewritten, 9999, 500, 250, 75)


class StoreKind(NamedTuple):
    name: str
    change: Change
    run: int = 0
    """Which run is verified then."""
    reader: str = "alone"


def sql(*statements: str) -> Change:
    return lambda _, path: tamper(path, *((each, ()) for each in statements))


def body(number: int, change: Callable[[bytes], bytes], *, fit: bool = False) -> Change:
    """The body of a commit of the first run; `fit`: with the digest beside it."""

    def changed(_: StoreFile, path: Path) -> None:
        codec, row = Codec(), (1 << 24) + number
        stored = query(path, "SELECT body FROM commits WHERE id = ?", (row,))[0][0]
        assert isinstance(stored, bytes)
        other = change(codec.unpack(stored))
        assert other != codec.unpack(stored)
        changes: list[tuple[str, tuple[object, ...]]] = [
            ("UPDATE commits SET body = ? WHERE id = ?", (codec.pack_body(other), row))
        ]
        if fit:
            changes.append(("UPDATE commits SET digest = ? WHERE id = ?", (sha256(other).digest(), row)))
        tamper(path, *changes)

    return changed


def put(name: str) -> Change:
    """Another file in its place."""
    return lambda file, path: copy_store(getattr(file, name), path)


def with_old_log(file: StoreFile, path: Path) -> None:
    """The runs of another past, the log as it was."""
    copy_store(file.rewritten, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER log_checkpoints_are_not_deleted")
        db.execute("ATTACH ? AS other", (str(file.path),))
        for table in ("log_nodes", "log_checkpoints"):
            db.execute(f"DELETE FROM {table}")
            db.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")


LAST = "4"
LAST_RUN = (
    *(f"DELETE FROM {table} WHERE run_no = {LAST}" for table in ("runs", "seals", "contents")),
    f"DELETE FROM commits WHERE id >> 24 = {LAST}",
    f"DELETE FROM payloads WHERE id >> 36 = {LAST}",
)
CUT_LOG = (
    "DELETE FROM log_checkpoints WHERE size > 3",
    *(
        f"DELETE FROM log_nodes WHERE id >= {level << LEVEL_BITS | 3 >> level} AND id < {(level + 1) << LEVEL_BITS}"
        for level in range(3)
    ),
)


def flip(table: str, column: str, row: int) -> Change:
    """A bit of a cell."""

    def changed(_: StoreFile, path: Path) -> None:
        cell = query(path, f"SELECT {column} FROM {table} WHERE id = ?", (row,))[0][0]
        assert isinstance(cell, bytes)
        other = cell[:12] + bytes([cell[12] ^ 1]) + cell[13:]
        tamper(path, (f"UPDATE {table} SET {column} = ? WHERE id = ?", (other, row)))

    return changed


def kinds() -> list[StoreKind]:
    commit, last_value = (1 << 24) + 2, "(SELECT max(id) FROM payloads WHERE id >> 36 = 1)"
    of_seal = "WHERE schema = 'reenact.seal.v1'"
    first_run = "id >> 24 = 1"
    return [
        StoreKind("a byte of a commit", flip("commits", "body", commit)),
        StoreKind("a word in a commit", body(2, _later)),
        StoreKind("a word in a commit, with its digest", body(2, _later, fit=True)),
        StoreKind("the digest beside a commit", flip("commits", "digest", commit)),
        StoreKind("what vouches for a commit", flip("commits", "mac", commit)),
        StoreKind("what vouches for a commit taken away", sql(f"UPDATE commits SET mac = NULL WHERE id = {commit}")),
        StoreKind(
            "what vouches for another commit",
            sql(f"UPDATE commits SET mac = (SELECT mac FROM commits WHERE id = {commit + 1}) WHERE id = {commit}"),
        ),
        StoreKind("a commit taken out", sql(f"DELETE FROM commits WHERE id = {commit}")),
        StoreKind(
            "the last commit taken out",
            sql(f"DELETE FROM commits WHERE id = (SELECT max(id) FROM commits WHERE {first_run})"),
        ),
        StoreKind("all commits of a run taken out", sql(f"DELETE FROM commits WHERE {first_run}")),
        StoreKind(
            "two commits exchanged",
            sql(
                f"UPDATE commits SET id = 0 WHERE id = {commit}",
                f"UPDATE commits SET id = {commit} WHERE id = {commit + 1}",
                f"UPDATE commits SET id = {commit + 1} WHERE id = 0",
            ),
        ),
        StoreKind(
            "a commit of another run in its place",
            sql(
                "UPDATE commits SET (body, digest, mac) = (SELECT body, digest, mac FROM commits "
                f"WHERE id = {(2 << 24) + 2})"
                f" WHERE id = {commit}"
            ),
        ),
        StoreKind(
            "a byte of a payload",
            sql(
                "UPDATE payloads SET body = CAST(substr(body, 1, length(body) - 1) || '?' AS BLOB) WHERE id = "
                "(SELECT max(id) FROM payloads WHERE id >> 36 = 1)"
            ),
        ),
        StoreKind(
            "a payload taken out",
            sql("DELETE FROM payloads WHERE id = (SELECT max(id) FROM payloads WHERE id >> 36 = 1)"),
        ),
        StoreKind("all payloads of a run taken out", sql("DELETE FROM payloads WHERE id >> 36 = 1")),
        StoreKind(
            "the commitment beside a payload",
            sql(f"UPDATE payloads SET commitment = zeroblob(32) WHERE id = {last_value}"),
        ),
        StoreKind("an erasure taken out", sql("DELETE FROM erasures WHERE id = 1"), 1),
        StoreKind("all erasures taken out", sql("DELETE FROM erasures"), 1),
        StoreKind(
            "who erased, in a store",
            sql("UPDATE erasures SET body = CAST(replace(CAST(body AS TEXT), 'kim', 'eve') AS BLOB)"),
            1,
        ),
        StoreKind("the seal's row taken out", sql("DELETE FROM seals WHERE run_no = 1")),
        StoreKind("the digest in the seal's row", sql("UPDATE seals SET seal_digest = zeroblob(32) WHERE run_no = 1")),
        StoreKind("the note about a seal taken out", sql("DELETE FROM notes WHERE schema = 'reenact.seal.v1'")),
        StoreKind("the signature of a note", sql(f"UPDATE notes SET signature = zeroblob(64) {of_seal}")),
        StoreKind("the key of a note", sql(f"UPDATE notes SET kid = 'aaaaaaaaaaaaaaaa' {of_seal}")),
        StoreKind(
            "the beginning of what is signed, in a store", sql("DELETE FROM notes WHERE schema = 'reenact.signing.v1'")
        ),
        StoreKind("all notes", sql("DELETE FROM notes")),
        StoreKind("the key's row taken out", sql("DELETE FROM keys")),
        StoreKind("another key's row", sql("INSERT INTO keys VALUES ('aaaaaaaaaaaaaaaa', 'AAAA')")),
        StoreKind("the store's name", sql("UPDATE store SET value = 'another' WHERE key = 'store_id'")),
        StoreKind("the secret of idempotency keys", sql("UPDATE key_secret SET secret = zeroblob(32)")),
        StoreKind("the status of a run", sql("UPDATE runs SET status = 'failed' WHERE run_no = 1")),
        StoreKind(
            "a table that is a view",
            sql("ALTER TABLE seals RENAME TO hidden", "CREATE VIEW seals AS SELECT * FROM hidden"),
        ),
        StoreKind("a node of the log", sql("UPDATE log_nodes SET hash = zeroblob(32)")),
        StoreKind("the root of the log's head", sql("UPDATE log_checkpoints SET root = zeroblob(32)")),
        StoreKind("the log taken out", sql("DELETE FROM log_nodes", "DELETE FROM log_checkpoints"), 0, "checkpoint"),
        StoreKind("the last run dropped", sql(*LAST_RUN), 2),
        StoreKind("the last run dropped, and the log's head with it", sql(*LAST_RUN, CUT_LOG[0]), 2),
        StoreKind(
            "the last run dropped and the log cut: who kept a checkpoint", sql(*LAST_RUN, *CUT_LOG), 2, "checkpoint"
        ),
        StoreKind("the file of before the last run: who kept a checkpoint", put("older"), 2, "checkpoint"),
        StoreKind("another past, signed by the owner: who kept a checkpoint", put("rewritten"), 0, "checkpoint"),
        StoreKind(
            "another past, in which this run is the same: who kept a checkpoint", put("rewritten"), 3, "checkpoint"
        ),
        StoreKind("another past beside the log as it was", with_old_log),
        StoreKind("another past beside the log as it was: who kept a checkpoint", with_old_log, 0, "checkpoint"),
    ]


ONLY_OUTSIDE = (
    "the last run dropped and the log cut",
    "the file of before the last run",
    "another past, signed",
    "another past, in which",
)
"""What the store alone does not show: in these nothing is broken, and whoever kept a head sees it."""


def _later(data: bytes) -> bytes:
    at = data.index(b'"ts":"') + len(b'"ts":"')
    return data[:at] + b"2001" + data[at + 4 :]


def told(file: StoreFile, kind: StoreKind, path: Path, reader: str | None = None) -> Told:
    copy_store(file.path, path)
    kind.change(file, path)
    return judged(file, path, kind.run, reader or kind.reader)


def judged(file: StoreFile, path: Path, run: int, reader: str) -> Told:
    believed = Believed(kept=(file.kept,)) if reader == "checkpoint" else NOBODY
    try:
        verified = verify_run(str(path), file.runs[run], trusted=file.keys, believed=believed)
    except ReenactError as error:
        return {"exit_code": error.exit_code, "code": error.code}
    report = verified.report
    first = report.first_break
    said: Told = {
        "exit_code": verified.exit_code,
        "verdicts": f"{report.integrity} {report.completeness} {report.authenticity} {report.anchoring}",
        "code": None if first is None else first.code,
    }
    if first is not None:
        said["file"] = first.where.file
        said["commit"] = first.where.commit
    if verified.differences:
        said["derived"] = verified.differences[0].table
    return said


def is_found(file: StoreFile, kind: StoreKind, said: Told) -> bool:
    """By code, by a table that does not follow from the journal, or at least by another verdict than before."""
    return said != judged(file, file.path, kind.run, kind.reader)


def expected() -> dict[str, Told]:
    found: dict[str, Told] = msgspec.json.decode(EXPECTED.read_bytes())
    return found
