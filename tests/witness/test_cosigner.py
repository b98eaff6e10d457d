"""A witness of ours: what it puts its name to, and what it refuses, as C2SP tlog-witness says."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from reenact.store.open import open_witnessed
from reenact.store.signing import key_in_memory
from reenact.store.sqlite.log.witnessed import SqliteWitnessed
from reenact.store.sqlite.store import SqliteStore
from reenact.values.clock import FixedClock
from reenact.verify.log.checkpoint import Cosigned, Head, cosigned_by
from reenact.verify.log.merkle import EMPTY
from reenact.verify.signed.signed_note import key_id, read_note, signature_line
from reenact.witness.cosigner import SIZE_TYPE, Answer, Cosigner, write_request
from tests.fork_server import FORKS
from tests.witness.stores import a_store, a_witness, grow, log_key


def request(store: SqliteStore, old: int, size: int | None = None, path: list[bytes] | None = None) -> bytes:
    kept = store.log.rows.newest() if size is None else store.log.rows.checkpoint(size)
    assert kept is not None
    return write_request(
        old, store.log.consistency(old, kept.size) if path is None else path, store.log.note(kept, cosigned=False)
    )


def signed(store: SqliteStore, head: Head) -> bytes:
    """A head that the log never had, and that its key signs all the same."""
    key = store.signing_key
    raw = log_key(store).public_key
    return head.text() + b"\n" + signature_line(head.origin, key_id(head.origin, raw), key.sign(head.text()))


def cosigner_of(folder: Path, store: SqliteStore, key: object = None) -> Cosigner:
    state = open_witnessed(folder / "witness.db", name="w.example/1")
    return Cosigner(state, key or key_in_memory(), [log_key(store)], FixedClock())  # type: ignore[arg-type]


def test_it_puts_its_name_to_a_log_that_goes_on_and_refuses_every_other(tmp_path: Path) -> None:
    with a_store(tmp_path, 2) as store:
        witness, origin = cosigner_of(tmp_path, store), store.log.origin
        grow(store, 1)
        first = witness.add_checkpoint(request(store, 0, 2))
        assert first.status == 200
        note = read_note(store.log.note(store.log.rows.checkpoint(2), cosigned=False) + first.body)  # type: ignore[arg-type]
        assert isinstance(cosigned_by(note, witness.vkey), Cosigned)
        fork = Head(origin, 3, sha256(b"another past").digest())
        nobody = request(store, 2).replace(origin.encode(), b"reenact/nobody")
        cases: list[tuple[bytes, Answer]] = [
            (b"", Answer(400, b"")),
            (b"old 2\nnot base64\n\n", Answer(400, b"")),
            (request(store, 2).replace(b"old 2", b"old 02"), Answer(400, b"")),
            (write_request(7, [], store.log.note(store.log.rows.newest(), cosigned=False)), Answer(400, b"")),  # type: ignore[arg-type]
            (nobody, Answer(404, b"")),
            (request(store, 2).replace(b"\n3\n", b"\n4\n"), Answer(403, b"")),
            (request(store, 0), Answer(409, b"2\n", SIZE_TYPE)),
            (request(store, 1), Answer(409, b"2\n", SIZE_TYPE)),
            (request(store, 2, path=[]), Answer(422, b"")),
            (request(store, 2, path=[EMPTY] * 63), Answer(422, b"")),
            (request(store, 2, path=[EMPTY] * 64), Answer(400, b"")),
            (write_request(2, [EMPTY, EMPTY], signed(store, fork)), Answer(422, b"")),
            (write_request(2, [], signed(store, Head(origin, 2, fork.root))), Answer(422, b"")),
            (write_request(2, [], signed(store, Head(origin, 1, fork.root))), Answer(400, b"")),
        ]
        for number, (body, expected) in enumerate(cases):
            answer = witness.add_checkpoint(body)
            assert answer.status == expected.status, (number, answer)
            if expected.status == 409:
                assert (answer.body, answer.kind) == (expected.body, expected.kind)
        assert witness.add_checkpoint(request(store, 2)).status == 200
        assert witness.add_checkpoint(request(store, 3)).status == 200, "the same once more: its answer was lost"
        assert witness.add_checkpoint(request(store, 2)).body == b"3\n"
        shown = witness.checkpoint(sha256(origin.encode()).hexdigest())
        assert isinstance(cosigned_by(read_note(shown.body), witness.vkey), Cosigned)
        assert witness.checkpoint("0" * 64).status == 404


def test_an_empty_log_has_the_root_of_nothing_or_is_refused(tmp_path: Path) -> None:
    with a_store(tmp_path, 1) as store:
        witness, origin = cosigner_of(tmp_path, store), store.log.origin
        wrong = write_request(0, [], signed(store, Head(origin, 0, sha256(b"x").digest())))
        assert witness.add_checkpoint(wrong).status == 422
        assert witness.add_checkpoint(write_request(0, [], signed(store, Head(origin, 0, EMPTY)))).status == 200
        assert witness.add_checkpoint(request(store, 0)).status == 200


def test_what_it_remembers_only_grows(tmp_path: Path) -> None:
    with a_store(tmp_path, 2) as store:
        cosigner_of(tmp_path, store).add_checkpoint(request(store, 0))
    with closing(sqlite3.connect(tmp_path / "witness.db", isolation_level=None)) as db:
        for statement in (
            "UPDATE heads SET size = 1",
            "DELETE FROM heads",
            "INSERT OR REPLACE INTO heads SELECT origin, size, x'00', time, note FROM heads",
            "INSERT INTO heads SELECT origin, 1, root, time, note FROM heads",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(statement)


def test_requests_are_bounded_and_what_is_no_request_is_told(tmp_path: Path) -> None:
    with a_store(tmp_path, 1) as store, a_witness(tmp_path, log_key(store)) as (url, _):
        place = url.removeprefix("http://")

        def status(method: str, path: str, body: bytes | None = None, **headers: str) -> int:
            with closing(http.client.HTTPConnection(place, timeout=5)) as connection:
                connection.request(method, path, body, headers)
                return connection.getresponse().status

        assert status("GET", "/") == 404
        assert status("POST", "/", b"x") == 404
        assert status("POST", "/add-checkpoint", b"x") == 400
        assert status("POST", "/add-checkpoint", b"x" * 70_000) == 413
        assert status("POST", "/add-checkpoint", None, **{"Content-Length": "1e3"}) == 411
        assert status("DELETE", "/add-checkpoint") == 501
        assert status("POST", "/add-checkpoint", request(store, 0)) == 200
        host, port = place.split(":")
        for rubbish in (
            b"\0" * 100,
            b"GET " + b"/" * 70_000,
            b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 9\r\n\r\nx",
        ):
            with socket.create_connection((host, int(port)), timeout=5) as peer:
                peer.sendall(rubbish + b"\r\n\r\n")
        assert status("GET", f"/{sha256(store.log.origin.encode()).hexdigest()}/checkpoint") == 200


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def dying(state: str, bodies: list[bytes], log: object, key: object, after: int, said: object) -> None:
    """In a process of its own: asked for the one head and then the other, and killed at a statement."""
    witnessed = SqliteWitnessed(state, name="w.example/1")
    left = after

    def trace(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    witnessed._db.set_trace_callback(trace)
    witness = Cosigner(witnessed, key_in_memory(), [log], FixedClock())  # type: ignore[list-item]
    for body in bodies:
        answer = witness.add_checkpoint(body)
        said.send((body, answer.status))  # type: ignore[attr-defined]


def test_a_witness_that_is_killed_at_any_statement_never_puts_its_name_to_two_heads_of_one_size(tmp_path: Path) -> None:
    with a_store(tmp_path, 2) as store:
        head = store.log.rows.newest()
        assert head is not None
        two = [request(store, 0), write_request(0, [], signed(store, Head(store.log.origin, 2, sha256(b"x").digest())))]
        key = log_key(store)
    for after in range(1, 9):
        state, cosigned = str(tmp_path / f"w{after}.db"), set()
        for bodies in (two, two[::-1]):
            here, there = FORKS.Pipe(duplex=False)
            child = FORKS.Process(target=dying, args=(state, bodies, key, None, after, there))
            child.start()
            there.close()
            while True:
                try:
                    body, status = here.recv()
                except EOFError:
                    break
                if status == 200:
                    cosigned.add(body)
            child.join()
            after = 10_000 if child.exitcode == 0 else after + 4  # noqa: PLW2901
        assert len(cosigned) <= 1
        with closing(sqlite3.connect(state)) as db:
            assert db.execute("SELECT count(*), count(DISTINCT size) FROM heads").fetchone() in {(0, 0), (1, 1)}
