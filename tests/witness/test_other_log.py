"""Our checkpoints and proofs held against the module of Go's checksum database, and a log that it makes against ours.

`golang.org/x/mod` (sumdb/note, sumdb/tlog) shares nothing with ours but the formats. It is used where a Go and its
source are found: on Debian `apt-get install golang-go golang-golang-x-mod-dev`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import DamagedRecord
from reenact.store.sqlite.store import SqliteStore
from reenact.verify.log.checkpoint import read_checkpoint
from reenact.verify.log.merkle import EMPTY, is_consistent, leaf_hash, root_from
from reenact.verify.signed.signed_note import read_vkey, signed_by
from tests.witness.stores import a_store, grow, leaves, log_key

SIZE = 11
PROGRAM = Path(__file__).with_name("other_log.go")
PLACES = [*filter(None, os.environ.get("GOPATH", "").split(":")), str(Path.home() / "go"), "/usr/share/gocode"]
SOURCE = next((each for each in PLACES if Path(each, "src/golang.org/x/mod/sumdb/tlog/tlog.go").exists()), None)

pytestmark = pytest.mark.skipif(
    shutil.which("go") is None or SOURCE is None,
    reason="no Go with the source of golang.org/x/mod is installed: apt-get install golang-go golang-golang-x-mod-dev",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """With a head for every size."""
    with a_store(tmp_path_factory.mktemp("log"), 0) as store:
        for _ in range(SIZE):
            grow(store)
        yield store


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_bytes(PROGRAM.read_bytes())
    assert SOURCE is not None
    own = {"GO111MODULE": "off", "GOPATH": SOURCE, "GOCACHE": str(folder / "cache"), "GOFLAGS": "", "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", "log", "main.go"], cwd=folder, env={**os.environ, **own}, check=True)
    return folder / "log"


def ask(program: Path, **asked: object) -> Any:
    return json.loads(
        subprocess.run([program], input=json.dumps(asked).encode(), capture_output=True, check=True).stdout
    )


def text(hashes: list[bytes]) -> list[str]:
    return [b64encode(each).decode() for each in hashes]


def inclusion(store: SqliteStore) -> list[dict[str, Any]]:
    there = leaves(store)
    return [
        {
            "note": note_of(store, size),
            "leaf": b64encode(there[index]).decode(),
            "index": index,
            "path": text(store.log.path(index, size)),
        }
        for size in range(1, SIZE + 1)
        for index in range(size)
    ]


def consistency(store: SqliteStore) -> list[dict[str, Any]]:
    return [
        {"note": note_of(store, size), "old": note_of(store, old), "path": text(store.log.consistency(old, size))}
        for size in range(1, SIZE + 1)
        for old in range(1, size + 1)
    ]


def note_of(store: SqliteStore, size: int) -> str:
    head = store.log.rows.checkpoint(size)
    assert head is not None
    return store.log.note(head).decode()


def test_it_accepts_every_checkpoint_and_every_proof_of_ours(store: SqliteStore, program: Path) -> None:
    asked = inclusion(store) + consistency(store)
    said = ask(program, key=str(log_key(store)), questions=asked)["Said"]
    assert len(said) == SIZE * (SIZE + 1)
    assert set(said) == {""}


def changed(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    path = question["path"]
    for place in range(len(path)):
        other = text([sha256(b"x").digest()])
        yield {**question, "path": path[:place] + other + path[place + 1 :]}
        yield {**question, "path": path[:place] + path[place + 1 :]}
    yield {**question, "path": [*path, *text([EMPTY])]}
    lines = question["note"].split("\n")
    yield {**question, "note": "\n".join([lines[0], str(int(lines[1]) + 1), *lines[2:]])}
    yield {**question, "note": "\n".join([*lines[:2], *text([EMPTY]), *lines[3:]])}
    other = "B" if lines[2][0] == "A" else "A"
    yield {**question, "note": "\n".join([*lines[:2], other + lines[2][1:], *lines[3:]])}
    if "leaf" in question:
        yield {**question, "index": question["index"] + 1}
        yield {**question, "leaf": "e30="}


def test_it_refuses_what_we_refuse(store: SqliteStore, program: Path) -> None:
    key = log_key(store)
    asked = [each for question in inclusion(store) + consistency(store) for each in changed(question)]
    said = ask(program, key=str(key), questions=asked)["Said"]
    ours = [judge(question, str(key)) for question in asked]
    assert [not each for each in said] == ours
    assert ours.count(True) == 0
    assert len(ours) > 500


def judge(question: dict[str, Any], key: str) -> bool:
    vkey = read_vkey(key)
    heads = []
    for name in ("note", "old"):
        if name in question:
            try:
                checkpoint = read_checkpoint(question[name].encode())
            except DamagedRecord:
                return False
            if signed_by(checkpoint.note, vkey) is not True:
                return False
            heads.append(checkpoint.head)
    path = [b64decode(each) for each in question["path"]]
    if "old" in question:
        new, old = heads
        return is_consistent((old.size, old.root), (new.size, new.root), path)
    leaf = leaf_hash(b64decode(question["leaf"]))
    return (
        question["index"] < heads[0].size and root_from(leaf, question["index"], heads[0].size, path) == heads[0].root
    )


def test_we_accept_every_checkpoint_and_every_proof_of_a_log_that_it_made(program: Path) -> None:
    there = [f"leaf {number}".encode() * number for number in range(20)]
    made = ask(program, leaves=[b64encode(each).decode() for each in there])["Made"]
    notes = dict(enumerate(made["Notes"], 1))
    for proof in made["Inclusion"]:
        index, size = proof["Old"], proof["Size"]
        leaf = b64encode(there[index]).decode()
        assert judge({"note": notes[size], "leaf": leaf, "index": index, "path": proof["Path"]}, made["Key"])
    for proof in made["Consistency"]:
        question = {"note": notes[proof["Size"]], "old": notes[proof["Old"]], "path": proof["Path"]}
        assert judge(question, made["Key"])
    assert len(made["Inclusion"]) == len(made["Consistency"]) == 210
