"""Somebody who can write the database, and has no key of it, wants his own key to sign for the store."""

from __future__ import annotations

import sqlite3
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reenact import Runtime, skill
from reenact.errors import KeyUnavailable, NotAuthentic, UsageError
from reenact.journal.chain import encode
from reenact.record.export import export_run
from reenact.store.checks.verification import verify_run
from reenact.store.keys.history import Beginning, Head, Replacement, Rotation
from reenact.store.keys.keeping import replace_key, rotate_key
from reenact.store.keys.notes import Note, note_text, sign_note
from reenact.store.signing import SigningKey
from reenact.store.sqlite.store import SqliteStore
from reenact.values.canonical import canonicalize, parse_json
from reenact.values.digest import ZERO_DIGEST, digest
from reenact.verify import verify_bundle
from tests.attacks.bank import Bank
from tests.attacks.forger import Forger, forge
from tests.crash.harness import in_child

TS = "2026-01-01T00:00:00.000Z"


@skill("add", version="1.0.0", tool_class="write", honours_key=True)
def add(value: int) -> int:
    return value + 1


STEPS = [{"step_id": f"s{n}", "skill_id": "add", "parameters": {"value": n}} for n in range(3)]
PLAN = {"plan_id": "p", "agent_id": "a", "steps": STEPS}


def run(path: Path) -> None:
    Runtime(str(path), skills=[add]).run(PLAN)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a run that has ended, and one that has not."""
    path = tmp_path / "store.db"
    run(path)
    assert in_child(lambda: run(path), crash_at="before_dispatch:2") != 0
    return path


class Thief:
    """Has the database, and a key that he made."""

    def __init__(self, path: Path) -> None:
        self.key = SigningKey(Ed25519PrivateKey.generate())
        self.path = path
        ((self.store_id,),) = self.ask("SELECT value FROM store WHERE key = 'store_id'")
        ((self.old_kid,),) = self.ask("SELECT kid FROM keys")
        ((self.run_id, self.run_no),) = self.ask("SELECT run_id, run_no FROM runs ORDER BY run_no DESC LIMIT 1")

    def ask(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as db:
            rows = db.execute(sql, values).fetchall()
            db.commit()
        return rows

    def without_guards(self) -> None:
        for (name,) in self.ask("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            self.ask(f"DROP TRIGGER {name}")

    def put_key(self, kid: str | None = None) -> None:
        self.ask("INSERT INTO keys VALUES (?, ?)", kid or self.key.kid, self.key.public_key)

    def put(self, note: Note) -> None:
        self.ask(
            "INSERT INTO notes (schema, store_id, digest, kid, signature, record) VALUES (?, ?, ?, ?, ?, ?)", *note
        )

    def rotation(self) -> Rotation:
        return Rotation(new_key=self.key.public_key, new_kid=self.key.kid, old_kid=str(self.old_kid), ts=TS, who="ops")

    def note(self, record: Rotation | Replacement | Beginning, **changed: object) -> Note:
        raw = encode(record)
        note = sign_note(self.key, record.schema, str(self.store_id), sha256(raw).hexdigest(), raw)
        return note._replace(**changed)  # type: ignore[arg-type]


def a_row_in_keys(thief: Thief) -> None:
    thief.put_key()


def a_rotation_that_he_signs(thief: Thief) -> None:
    thief.put_key()
    thief.put(thief.note(thief.rotation()))


def a_rotation_in_the_old_keys_name(thief: Thief) -> None:
    thief.put_key()
    thief.put(thief.note(thief.rotation(), kid=thief.old_kid))


def a_rotation_without_signature(thief: Thief) -> None:
    thief.put_key()
    thief.put(thief.note(thief.rotation(), kid=thief.old_kid, signature=b""))


def a_rotation_with_another_notes_signature(thief: Thief) -> None:
    ((signature,),) = thief.ask("SELECT signature FROM notes WHERE schema = 'reenact.signing.v1'")
    thief.put_key()
    thief.put(thief.note(thief.rotation(), kid=thief.old_kid, signature=signature))


def a_second_beginning(thief: Thief) -> None:
    thief.put_key()
    none = Head(count=0, head=ZERO_DIGEST)
    keys = {thief.key.kid: thief.key.public_key}
    thief.put(thief.note(Beginning(erasures=none, keys=keys, seals=none, ts=TS)))


def another_beginning_in_its_place(thief: Thief) -> None:
    thief.without_guards()
    thief.ask("DELETE FROM notes")
    a_second_beginning(thief)


def a_key_under_the_name_of_the_old_one(thief: Thief) -> None:
    thief.without_guards()
    thief.ask("UPDATE keys SET public_key = ?", thief.key.public_key)


def a_beginning_with_one_word_changed(thief: Thief) -> None:
    thief.without_guards()
    thief.ask(
        "UPDATE notes SET record = CAST(replace(CAST(record AS TEXT), '\"count\":0', '\"count\":9') AS BLOB) "
        "WHERE schema = 'reenact.signing.v1'"
    )


def a_rotation_from_another_store(thief: Thief) -> None:
    thief.put_key()
    record = encode(thief.rotation())
    digest = sha256(record).hexdigest()
    other = "0" * 8 + str(thief.store_id)[8:]
    signature = thief.key.sign(note_text("reenact.key_rotation.v1", other, digest))
    thief.put(Note("reenact.key_rotation.v1", other, digest, str(thief.old_kid), signature, record))


FORGERIES = [
    a_row_in_keys,
    a_rotation_that_he_signs,
    a_rotation_in_the_old_keys_name,
    a_rotation_without_signature,
    a_rotation_with_another_notes_signature,
    a_second_beginning,
    another_beginning_in_its_place,
    a_key_under_the_name_of_the_old_one,
    a_beginning_with_one_word_changed,
    a_rotation_from_another_store,
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_makes_his_key_one_of_the_stores(path: Path, forge: Callable[[Thief], None]) -> None:
    """A key is put on record without a word of the key before it: verify finds it, and it signs for nothing."""
    thief = Thief(path)
    forge(thief)
    for run_id in ("last", SqliteStore(str(path)).runs()[-1].run_id):
        report = verify_run(str(path), run_id).report
        assert "broken" in (report.authenticity, report.integrity)
    if forge in (a_row_in_keys, a_key_under_the_name_of_the_old_one):  # the runtime believes notes alone
        (result,) = Runtime(str(path), skills=[add]).recover()
        assert result.status == "completed"
        return
    with pytest.raises((NotAuthentic, KeyUnavailable)):
        raise next(result.error for result in Runtime(str(path), skills=[add]).recover() if result.error is not None)


def replaced_by_his_own(thief: Thief) -> None:
    rows = thief.ask("SELECT id & 16777215, hex(digest) FROM commits WHERE id >> 24 = ? ORDER BY id", thief.run_no)
    commits, head = rows[-1]
    runs = [(str(thief.run_id), int(str(commits)), str(head).lower())]
    thief.put_key()
    record = Replacement(
        new_key=thief.key.public_key, new_kid=thief.key.kid, old_kid=str(thief.old_kid), reason="lost", runs=runs,
        ts=TS, who="ops",
    )  # fmt: skip
    thief.put(thief.note(record))


def test_says_that_the_key_was_lost(path: Path) -> None:
    """A replacement needs no word of the old key: an engine that has that one and not the new goes on with nothing."""
    thief = Thief(path)
    replaced_by_his_own(thief)
    runtime = Runtime(str(path), skills=[add])
    (result,) = runtime.recover()
    assert isinstance(result.error, NotAuthentic)
    assert "somebody tampered" in str(result.error)
    with pytest.raises(NotAuthentic):
        runtime.run(PLAN)
    with pytest.raises(NotAuthentic):
        replace_key(runtime.store, who="ops", reason="as the note says")
    report = verify_run(str(path), str(thief.run_id)).report
    assert any("not vouched for by the old key" in note for note in report.notes)
    trusted = {str(thief.old_kid): str(runtime.store.public_keys()[str(thief.old_kid)])}
    assert verify_run(str(path), str(thief.run_id), trusted).report.authenticity != "holds"


def test_moves_a_replacement_to_another_head(path: Path) -> None:
    """The key was honestly replaced; the run's commits are then cut back, and another history put behind the list."""
    key = Path(f"{path}.key")
    key.unlink()
    runtime = Runtime(str(path), skills=[add])
    replace_key(runtime.store, who="ops", reason="lost")
    runtime.close()
    thief = Thief.__new__(Thief)
    thief.path = path
    thief.without_guards()
    ((last,),) = thief.ask("SELECT max(id) FROM commits")
    thief.ask("DELETE FROM payloads WHERE id >> 12 = ?", last)
    thief.ask("DELETE FROM commits WHERE id = ?", last)
    thief.ask("DELETE FROM traces WHERE id >> 24 = ? AND commit_n = ?", int(str(last)) >> 24, int(str(last)) & 0xFFFFFF)
    (result,) = Runtime(str(path), skills=[add]).recover()
    assert isinstance(result.error, NotAuthentic)
    report = verify_run(str(path), "last").report
    assert report.authenticity == "broken"


def test_rotates_in_a_bundle(path: Path, tmp_path: Path) -> None:
    """The thief signs a whole bundle again with his key and writes a rotation from the trusted one into it."""
    runtime = Runtime(str(path), skills=[add])
    rotate_key(runtime.store, who="ops")
    trusted = {kid: key for kid, key in runtime.store.public_keys().items() if kid == runtime.store.signing_key.kid}
    folder = tmp_path / "bundle"
    export_run(str(path), runtime.store.runs()[-1].run_id, folder)
    lines = [parse_json(line, what="note") for line in (folder / "notes.jsonl").read_bytes().splitlines()]
    thief_key = SigningKey(Ed25519PrivateKey.generate())
    for line in lines:
        if line["schema"] == "reenact.key_rotation.v1":
            line["record"] |= {"new_kid": thief_key.kid, "new_key": thief_key.public_key}
            line["digest"] = sha256(canonicalize(line["record"])).hexdigest()
            signed = thief_key.sign(note_text(line["schema"], line["store_id"], line["digest"]))
            line["signature"] = urlsafe_b64encode(signed).rstrip(b"=").decode()
    raw = b"".join(canonicalize(line) + b"\n" for line in lines)
    (folder / "notes.jsonl").write_bytes(raw)
    manifest = parse_json((folder / "manifest.json").read_bytes(), what="manifest")
    manifest["files"]["notes.jsonl"] = sha256(raw).hexdigest()
    manifest.pop("digest")
    manifest["digest"] = digest(manifest)
    (folder / "manifest.json").write_bytes(canonicalize(manifest) + b"\n")
    assert verify_bundle(folder).authenticity == "broken"
    assert verify_bundle(folder, keys=trusted).authenticity == "broken"


def test_has_a_key_that_never_signed_called_lost(tmp_path: Path) -> None:
    """A run that names a key of his: to replace that would put a record into the store that nobody can read past."""
    bank = Bank(tmp_path / "bank")
    run_id = bank.waiting()
    his = "0123456789abcdef"

    def name_his_key(forger: Forger) -> None:
        next(line["run"] for line in forger.lines() if line["kind"] == "run")["capability_key"] = his

    forge(bank.path, name_his_key)
    with closing(sqlite3.connect(bank.path)) as db:
        db.execute("INSERT INTO keys VALUES (?, ?)", (his, "A" * 43))
        db.commit()
    runtime = bank.runtime()
    with pytest.raises(UsageError, match="no key is lost"):
        replace_key(runtime.store, who="ops", reason="as recover said")
    assert runtime.store.key_table.history().replacements == []
    (result,) = runtime.recover()
    assert result.run_id == run_id
    assert result.error is not None
    assert bank.payments() == []
