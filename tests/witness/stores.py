"""A store with a log, and servers on loopback that play witnesses, good ones and others."""

from __future__ import annotations

import threading
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from reenact.store.base import Store
from reenact.store.log.log import leaf_of
from reenact.store.log.rows import Peer
from reenact.store.open import open_witnessed
from reenact.store.signing import SigningKey, key_in_memory
from reenact.values.clock import Clock, FixedClock
from reenact.values.digest import ZERO_DIGEST
from reenact.verify.signed.signed_note import COSIGNATURE, VerifierKey
from reenact.witness.cosigner import Answer, Cosigner
from reenact.witness.server import WitnessServer
from tests.engines.places import opened
from tests.store.units import Run


def grow(store: Store, count: int = 1, name: str = "run") -> None:
    """So many runs more, sealed, and in the log."""
    begin = store.log.rows.seal_count()
    for number in range(begin, begin + count):
        run = Run(f"{name}-{number}")
        unit, took = run.unit(sealed=True)
        took(store.append(unit, None, owner="me"))
    store.log.advance()


@contextmanager
def a_store(folder: Path, count: int = 3, clock: Clock | None = None) -> Iterator[Store]:
    store = opened(folder / "store.db", clock=clock or FixedClock())
    grow(store, count)
    try:
        yield store
    finally:
        store.close()


def log_key(store: Store) -> VerifierKey:
    return store.log.vkey(store.signing_key.kid)


def leaves(store: Store) -> list[bytes]:
    """What the log says of each run: the canonical bytes of its seal."""
    found, before = [], ZERO_DIGEST
    for number, row in enumerate(store.log.rows.seals(0, 100), 1):
        leaf, before = leaf_of(row, number, before)
        found.append(leaf)
    return found


def witness_key(key: SigningKey, name: str = "w.example/1") -> VerifierKey:
    return VerifierKey(name, COSIGNATURE, urlsafe_b64decode(key.public_key + "="))


@contextmanager
def a_witness(
    folder: Path, *logs: VerifierKey, key: SigningKey | None = None, clock: Clock | None = None
) -> Iterator[tuple[str, VerifierKey]]:
    """(address, key) of one of ours that listens."""
    state = open_witnessed(folder / "witness.db", name="w.example/1")
    cosigner = Cosigner(state, key or key_in_memory(), logs, clock or FixedClock())
    server = WitnessServer(("127.0.0.1", 0), cosigner)
    try:
        with running(server):
            yield f"http://127.0.0.1:{server.server_port}", cosigner.vkey
    finally:
        state.close()


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def answering(answer: Callable[[str, bytes], Answer | bytes]) -> Iterator[str]:
    """The address of a server that answers as it is told; bytes are sent one by one, slowly."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.say(answer(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self.say(answer(self.path, b""))

        def say(self, said: Answer | bytes) -> None:
            if isinstance(said, bytes):
                for byte in said:
                    self.wfile.write(bytes((byte,)))
                    self.wfile.flush()
                    if stop.wait(0.05):
                        return
                return
            self.send_response(said.status)
            self.send_header("Content-Type", said.kind)
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None: ...

    stop = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    with running(server):
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            stop.set()


def ask_at(store: Store, url: str, key: VerifierKey) -> None:
    store.log.ask(Peer(str(key), "witness", url))
