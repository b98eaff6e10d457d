"""Targets that read evidence: journal lines, tokens, frames, bundles that came by mail, stores that were changed."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from tools.vectors import writer as packing
from tools.vectors.bundle_vectors import stored

from reenact import Runtime
from reenact.errors import ReenactError
from reenact.journal import frontier
from reenact.journal.lines import decode_artifact, decode_line
from reenact.journal.run_fold import RunFold
from reenact.record.bundle import load_bundle
from reenact.record.document import read_document
from reenact.record.repair import lines as repairing
from reenact.runtime.writing import checkpoint_state
from reenact.skills.registry import Registry
from reenact.store.checks.verification import verify_run
from reenact.store.compression import RAW, ZSTD, ZSTD_DICT_1, Codec
from reenact.store.deltas import DELTA, HEAD, SALT
from reenact.store.deltas import put_together as put_deltas_together
from reenact.store.naming import named_by
from reenact.store.naming import read_lines as read_named
from reenact.store.open import open_store
from reenact.values.envelope import LARGEST_ENVELOPE
from reenact.verify import verifier
from reenact.verify.capability import Token
from reenact.verify.files.packed import PackedPayloads
from reenact.verify.lines import read_line
from reenact.verify.report import Findings
from reenact.verify.signed.signed_note import ED25519, VerifierKey, read_note, signature_line, signed_by, write_note
from reenact.verify.signed.trust import read_trust, trusted_line, verifier_key
from tests.fuzz.talking import MOST_LINES, talk

VECTORS = Path(__file__).parents[2] / "test_vectors" / "bundles"


@cache
def scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reenact-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# -- lines -------------------------------------------------------------------------------------------------------------


def read_lines(data: bytes) -> None:
    for line in read_named(data):
        named_by(line)
    for raw in data.splitlines(keepends=True)[:MOST_LINES]:
        read_line(raw)
        try:
            line = decode_line(raw, where="here")
            if line.kind == "entry":
                decode_artifact(line, where="here")
        except ReenactError:
            continue


@cache
def journals() -> tuple[bytes, ...]:
    return tuple(file.read_bytes() for file in sorted(VECTORS.glob("*/journal.jsonl")))


@cache
def lines() -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(line for journal in journals() for line in journal.splitlines(keepends=True)))


def fold_journal(data: bytes) -> None:
    """The reader that goes on with a run, and the verifier, which never raises."""
    bodies = [b'{"kind":"commit"' + part for part in data.split(b'{"kind":"commit"')[1:]]
    report = verifier.verify_lines(bodies or [data], None)
    assert report.integrity in ("holds", "broken")
    fold = RunFold(run_in(data))
    for body in bodies or [data]:
        fold.apply_body(body)


def run_in(journal: bytes) -> str:
    return journal.partition(b'"run_id":"')[2][:36].decode("latin-1")


def read_token(data: bytes) -> None:
    token = Token(data.decode("utf-8", "replace"))
    assert (token.problem is None) == (token.claims is not None)


@cache
def tokens() -> tuple[bytes, ...]:
    found = [part for journal in journals() for part in journal.split(b'"') if part.startswith(b"eyJ")]
    return tuple(dict.fromkeys(found))[:20]


def read_signed_note(data: bytes) -> None:
    note = read_note(data)
    assert write_note(note.text, note.signatures) == data, "another note was read than there is"
    for each in note.signatures:
        signed_by(note, VerifierKey(each.name, ED25519, (each.signature + bytes(32))[:32]))


@cache
def signed_notes() -> tuple[bytes, ...]:
    line = signature_line("example.com/foo", b"\x53\x0d\x90\x3a", bytes(range(64)))
    return (b"reenact.seal.v1\nstore\ndigest\n\n" + line, b"a\n\nb\n\n" + line + line)


def read_trusted_keys(data: bytes) -> None:
    for key in read_trust(data, "list").keys:
        assert read_trust(trusted_line(key).encode(), "list").keys == (key,), "it is not read as it is written"


@cache
def trusted_keys() -> tuple[bytes, ...]:
    vkey = str(verifier_key("019b76da-a800-7000-8000-000000000001", "A" * 43))
    return (f"# us\nacme billing  seals,capabilities,log  {vkey}\n".encode(), f"ada\tlog {'A' * 43}\r\n".encode())


def read_frontier(data: bytes) -> None:
    frontier.kept_beside(data)
    for read in (lambda: frontier.unpack("run", data), lambda: checkpoint_state.confirmed(data, "", "here")):
        try:
            read()
        except ReenactError:
            continue


def frontiers() -> Sequence[bytes]:
    fold = RunFold(run_in(journals()[0]))
    for body in journals()[0].split(b'{"kind":"commit"')[1:3]:
        fold.apply_body(b'{"kind":"commit"' + body)
    return (frontier.pack(fold), b"\x91" * 50, b"\xdd\xff\xff\xff\xff", b"\x81\xa1a\xcf" + b"\xff" * 8)


# -- frames ------------------------------------------------------------------------------------------------------------


CODEC = Codec()


def unpack(data: bytes) -> None:
    for codec in (RAW, ZSTD, ZSTD_DICT_1):
        packed = (CODEC.pack_body if codec == ZSTD_DICT_1 else CODEC.pack_envelope)(data)
        assert CODEC.unpack(packed) == data, "what was packed is not unpacked"
        try:
            assert len(CODEC.unpack(codec + data[:60_000])) <= LARGEST_ENVELOPE
        except ReenactError:
            continue


def frames() -> Sequence[bytes]:
    texts = (b"", b"a" * 1000, bytes(60_000_000), bytes(range(256)) * 50, *lines()[:3])
    return (*(CODEC.pack_envelope(text)[1:] for text in texts), *(CODEC.pack_body(text)[1:] for text in texts[1:]))


def put_together(data: bytes) -> None:
    """Rows that build on each other, or on themselves: the rows are what `|` parts."""
    rows = data.split(b"|-|")
    envelope = put_deltas_together(CODEC, rows[0], lambda number: rows[number % len(rows)])
    assert len(envelope) <= LARGEST_ENVELOPE


def deltas() -> Sequence[bytes]:
    base, salt = b"s" * SALT + b"a" * 3000, b"t" * SALT
    packed = DELTA + HEAD.pack(1, 1, 1000, 1000) + salt + CODEC.pack_middle(b"bcd" * 99)
    like = DELTA + HEAD.pack(1, 1, 0, 0) + salt + CODEC.pack_like(base[SALT:], b"a" * 2000 + b"b")
    bomb = DELTA + HEAD.pack(1, 1, 0, 0) + salt + CODEC.pack_envelope(bytes(60_000_000))
    itself = DELTA + HEAD.pack(1, 0, 5, 5) + salt + RAW + b"x"
    whole = CODEC.pack_envelope(base)
    return tuple(
        b"|-|".join(rows) for rows in ((packed, whole), (like, whole), (bomb, whole), (itself,), (packed, like, whole))
    )


# -- folders and files that came by mail -------------------------------------------------------------------------------


def verify_bundle(data: bytes) -> None:
    """The first line names the bundle and the file that has the rest as its content."""
    head, _, content = data.partition(b"\n")
    named = head.decode("utf-8", "replace").split("/", 1)
    bundle = named[0] if named[0] in {folder.name for folder in VECTORS.iterdir()} else "three_steps"
    folder, file = mailed(bundle), named[1] if len(named) == 2 else "journal.jsonl"
    known = {str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_file()}
    target = known.get(file, folder / "journal.jsonl")
    before = target.read_bytes()
    target.write_bytes(content)
    try:
        report = verifier.verify_bundle(folder)
        same = packing.content(file, content) == packing.content(file, before)
        assert report.integrity == "broken" or same, "a file was changed, and it holds"
        load_bundle(folder)
    finally:
        target.write_bytes(before)


def verify_zip(data: bytes) -> None:
    """A zip that came by mail; what is in it is the evidence that was zipped, or it does not hold."""
    path = scratch() / "mailed.zip"
    path.write_bytes(data)
    report = verifier.verify_bundle(path)
    if report.exit_code == 0:
        load_bundle(path)


@cache
def zips() -> tuple[bytes, ...]:
    """Stored and deflated, with a folder on top and without, with what file managers add."""
    made = []
    for bundle, top, method in (
        ("three_steps_packed", "", ZIP_STORED), ("refusals", "evidence/", ZIP_DEFLATED), ("session", "", ZIP_DEFLATED),
    ):  # fmt: skip
        into = BytesIO()
        with ZipFile(into, "w", method) as packed:
            for file in sorted(mailed(bundle).rglob("*")):
                packed.write(file, f"{top}{file.relative_to(mailed(bundle))}")
            packed.writestr("__MACOSX/._evidence", b"x")
        made.append(into.getvalue())
    return tuple(made)


def read_packed(data: bytes) -> None:
    """A file of packed payloads: each is found again, or what is wrong is told."""
    findings = Findings()
    packed = PackedPayloads(Single(data), ["payloads.jsonl.gz"], findings)
    for commitment in packed.commitments:
        assert packed.get(commitment) is not None
    assert findings.total or packed.digests


def repair_file(data: bytes) -> None:
    """What is torn is whole once it is repaired, and no byte is lost."""
    path = scratch() / "torn.jsonl"
    path.write_bytes(data)
    found, kept = repairing.repair(path)
    if found.kind == "torn":
        assert found.keep == 0 or repairing.examine(path).kind == "whole"
        rest = b"" if kept is None else kept.read_bytes()
        assert rest == data or path.read_bytes().removesuffix(b"\n" if kept is None else b"") + rest == data
    if kept is not None:
        kept.unlink()


@cache
def torn_files() -> tuple[bytes, ...]:
    text = b"".join(lines()[:5])
    return (text, text[:-10], text + bytes(30), *(packed_files()[:2]), packed_files()[0][:-30])


class Single:
    """A bundle of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, name: str) -> BytesIO:
        return BytesIO(self.data)


@cache
def packed_files() -> tuple[bytes, ...]:
    file = (VECTORS / "three_steps_packed" / "payloads.jsonl.gz").read_bytes()
    lines = packing.content("x.gz", file)
    return (file, stored(lines), stored(lines[:200]), packing.gzipped(lines[:93] + b"A" * 95_000_000))


@cache
def mailed(bundle: str) -> Path:
    return Path(shutil.copytree(VECTORS / bundle, scratch() / bundle))


@cache
def bundles() -> tuple[bytes, ...]:
    files = [file for file in sorted(VECTORS.rglob("*")) if file.is_file() and file.parent != VECTORS]
    return tuple(str(file.relative_to(VECTORS)).encode() + b"\n" + file.read_bytes() for file in files)


# -- a store that somebody changed -------------------------------------------------------------------------------------


@cache
def store_file() -> tuple[Path, str]:
    """A store without its guards, and the run in it."""
    path = scratch() / "original.db"
    steps = [
        {"step_id": f"s{n}", "skill_id": "talk", "skill_version": "1.0.0", "parameters": {"text": "a" * 900 * n}}
        for n in range(4)
    ]
    runtime = Runtime(str(path), skills=Registry([talk]))
    run_id = runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps}).run_id
    runtime.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path, run_id


@cache
def cells() -> tuple[bytes, ...]:
    """`table column rowid how`, and the cell: as it lies there, or unpacked, to be packed again."""
    path, _ = store_file()
    found = []
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for column in [row[1] for row in db.execute(f"PRAGMA table_info({table})")]:
                for number, cell in rows_of(db, table, column):
                    raw = cell if isinstance(cell, bytes) else str(cell).encode()
                    found.append(f"{table} {column} {number} raw\n".encode() + raw)
                    if column == "body" and isinstance(cell, bytes) and table in ("commits", "payloads"):
                        content = CODEC.unpack(cell) if cell[:1] != DELTA else cell
                        found.append(f"{table} {column} {number} packed\n".encode() + content)
    return tuple(found)


def rows_of(db: sqlite3.Connection, table: str, column: str) -> list[tuple[int, object]]:
    try:
        return db.execute(f"SELECT rowid, {column} FROM {table} LIMIT 12").fetchall()
    except sqlite3.OperationalError:  # a table without row ids
        return []


def verify_store(data: bytes) -> None:
    head, _, content = data.partition(b"\n")
    path, run_id = store_file()
    changed = scratch() / "changed.db"
    shutil.copy(path, changed)
    if not change(changed, head.decode("utf-8", "replace").split(" "), content):
        return
    found = verify_run(str(changed), run_id)
    assert found.exit_code in (0, 1, 2, 3, 4)
    store = open_store(str(changed), to_read=True)
    try:
        read_document(store, run_id, values=True)
    finally:
        store.close()


def change(file: Path, place: list[str], content: bytes) -> bool:
    """False where there is no such cell, or the schema does not take it."""
    if len(place) != 4 or not all(part.isidentifier() for part in place[:2]):
        return False
    table, column, row, how = place
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("PRAGMA synchronous = OFF")
        cell: object = (
            (CODEC.pack_body if table == "commits" else CODEC.pack_envelope)(content) if how == "packed" else content
        )
        try:
            kind = db.execute(f"SELECT typeof({column}) FROM {table} WHERE rowid = ?", (row,)).fetchone()
            text = content.decode("utf-8", "replace")
            cell = text if kind == ("text",) else int(text) if kind == ("integer",) else cell
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (cell, row))
            if how == "packed" and table == "commits":
                db.execute("UPDATE commits SET digest = ? WHERE rowid = ?", (sha256(content).digest(), row))
        except (sqlite3.Error, ValueError, OverflowError):
            return False
    return True
