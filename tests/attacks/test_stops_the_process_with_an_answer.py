"""Answers of servers, and cells of a store that came by mail, that take all memory of whoever reads them."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from reenact.builtin.email_send import email_send
from reenact.values.envelope import LARGEST_ENVELOPE
from tests.attacks.limited import measured
from tests.builtin.calling import call
from tests.builtin.servers import Behaviour, Request, Server
from tests.fuzz.evidence import store_file

ALLOWED_MB = 512
QUICK_S = 20.0

ASK = """
from tests.builtin.calling import call
from reenact.builtin.llm_invoke import llm_invoke
import anthropic, openai
def act(given):
    url, name, model, stream = given
    said = {"prompt": "Hi", "model": model, "base_url": url, "api_key": "k" * 20, "stream": stream}
    called = call(llm_invoke, said, context={"allow_hosts": [name]})
    return [called.code, str(called.error)]
"""
FETCH = """
from tests.builtin.calling import call
from reenact.builtin.http_call import http_call
def act(given):
    url, name = given
    called = call(http_call, {"url": url, "max_bytes": 1_000_000_000}, context={"allow_hosts": [name]})
    return [called.code, called.output["format"] if called.output else str(called.error)]
"""
READ = """
from tests.builtin.calling import call
from reenact.builtin.file_read import file_read
def act(folder):
    called = call(file_read, {"path": "large", "max_bytes": 1_000_000_000}, context={"workspace": folder})
    return [called.code, str(called.error)]
"""
SEND = """
from tests.builtin.test_email_send import send
def act(port):
    called = send(port)
    return [called.code, type(called.error).__name__]
"""
VERIFY = """
from reenact.store.checks.verification import verify_run
def act(given):
    found = verify_run(*given)
    return [found.exit_code, [finding.code for finding in found.report.findings]]
"""


# -- models ------------------------------------------------------------------------------------------------------------


def packed(body: bytes, kind: bytes) -> Behaviour:
    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (kind, len(body)) + body)
        await writer.drain()

    return behave


def zeros(megabytes: int) -> bytes:
    return b"".join([gzip.compress(bytes(10_000_000), mtime=0)] * (megabytes // 10))


@pytest.mark.parametrize(
    ("model", "kind", "stream"),
    [("gpt-4o", b"application/json", False), ("claude-sonnet-4-20250514", b"text/event-stream", True)],
)
def test_an_answer_of_a_model_that_unpacks_to_700_mb(model: str, kind: bytes, stream: bool) -> None:
    """700 kB of gzip, which the provider's SDK unpacks before anybody looks."""
    with Server(packed(zeros(700), kind)) as server:
        base = server.url if model.startswith("claude") else f"{server.url}/v1"
        found = measured(ASK, [base, server.name, model, stream])
    assert found.result[0] == "ERR_STORAGE_QUOTA_EXCEEDED", found.result
    assert found.peak_mb < ALLOWED_MB
    assert found.cpu_s < QUICK_S


# -- what a plan wants more of than can be recorded --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "result"),
    [
        (zeros(700), b"text/plain", "ERR_STORAGE_QUOTA_EXCEEDED"),
        (gzip.compress(b"[" + b"[]," * 15_000_000 + b"0]", 1, mtime=0), b"application/json", "OK"),
    ],
    ids=["long", "many"],
)
def test_a_body_that_a_plan_wants_whole(body: bytes, kind: bytes, result: str) -> None:
    """`max_bytes` of a billion: 2.6 GB for a text, and sixty bytes for each bracket of what is JSON."""
    with Server(packed(body, kind)) as server:
        found = measured(FETCH, [server.url, server.name])
    assert found.result[0] == result, found.result
    assert result != "OK" or found.result[1] == "text"
    assert found.peak_mb < ALLOWED_MB


def test_a_file_that_a_plan_wants_whole(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(900_000_000)
    found = measured(READ, str(tmp_path))
    assert found.result[0] == "ERR_STORAGE_QUOTA_EXCEEDED", found.result
    assert "no larger one can be recorded" in found.result[1]
    assert found.peak_mb < ALLOWED_MB


# -- mail --------------------------------------------------------------------------------------------------------------


@contextmanager
def mail_server(say: Callable[[socket.socket], None]) -> Iterator[int]:
    """Says what it says to whoever comes, until they go."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            guest, _ = listening.accept()
            with guest:
                try:
                    say(guest)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
    thread.join(10)


def endless(guest: socket.socket) -> None:
    guest.sendall(b"220 here\r\n")
    guest.recv(1000)
    while True:
        guest.sendall(b"250-and another thing\r\n" * 4096)


def without_line_ends(guest: socket.socket) -> None:
    while True:
        guest.sendall(b"x" * 65536)


@pytest.mark.parametrize("say", [endless, without_line_ends])
def test_a_mail_server_that_never_stops_talking(say: Callable[[socket.socket], None]) -> None:
    """Line after line of one reply, all of which are kept until the last one comes."""
    with mail_server(say) as port:
        found = measured(SEND, port, seconds=30)
    assert found.peak_mb < ALLOWED_MB
    assert found.result[1] in ("NothingSent", "SkillError", "ERR_VALIDATION_FAILED"), found.result


def test_a_mail_server_that_says_a_letter_now_and_then() -> None:
    """No single read takes long, and the reply never ends: the time limit is that of the whole call."""

    def drip(guest: socket.socket) -> None:
        while True:
            guest.sendall(b"2")
            threading.Event().wait(0.05)

    with mail_server(drip) as port:
        mail = {"to": ["a@b.c"], "subject": "s", "body": "b", "sender": "a@b.c", "smtp_host": "127.0.0.1"}
        where = {"smtp_port": port, "security": "none"}
        called = call(email_send, {**mail, **where}, context={"allow_hosts": ["127.0.0.1"]}, timeout_ms=1_000)
    assert type(called.error).__name__ == "NothingSent"


# -- a store that came by mail -----------------------------------------------------------------------------------------


def frame(megabytes: int, letter: bytes) -> bytes:
    """A frame of zstd that says one letter again and again: four bytes for each 128 KiB."""
    blocks = megabytes * 8
    size = (blocks << 17).to_bytes(8, "little")
    block, last = ((1 << 1 | (1 << 17) << 3 | end).to_bytes(3, "little") + letter for end in (0, 1))
    return b"\x01\x28\xb5\x2f\xfd\xc0\x50" + size + block * (blocks - 1) + last


@pytest.fixture
def changed(tmp_path: Path) -> tuple[Path, str]:
    path, run_id = store_file()
    return Path(shutil.copy(path, tmp_path / "store.db")), run_id


@pytest.mark.parametrize("table", ["payloads", "commits"])
@pytest.mark.parametrize("megabytes", [1024, LARGEST_ENVELOPE >> 20])
def test_a_cell_of_a_store_that_unpacks_to_a_gigabyte(changed: tuple[Path, str], table: str, megabytes: int) -> None:
    """32 kB in a row of somebody's store, for which `verify` took 3.1 GB and two minutes."""
    path, run_id = changed
    cell = frame(megabytes, b"[")
    assert len(cell) < 40_000
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        last = f"(SELECT max(rowid) FROM {table})"
        assert db.execute(f"UPDATE {table} SET body = ? WHERE rowid = {last}", (cell,)).rowcount == 1
    found = measured(VERIFY, [str(path), run_id])
    assert found.result[0] == 1
    assert found.peak_mb < ALLOWED_MB
    assert found.cpu_s < QUICK_S


# -- a repository ------------------------------------------------------------------------------------------------------


def test_a_repository_that_names_a_billion_files(tmp_path: Path) -> None:
    """Nine trees of ten entries each, which all lead to the next: some kilobytes that git lists for ever."""

    def git(*arguments: str, given: bytes = b"") -> str:
        return subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            input=given,
            capture_output=True,
            check=True,
        ).stdout.decode().strip()  # fmt: skip

    git("init", "-q")
    kind, name = "blob", git("hash-object", "-w", "--stdin")
    for _ in range(9):
        mode = "100644" if kind == "blob" else "040000"
        name, kind = git("mktree", given="".join(f"{mode} {kind} {name}\td{n}\n" for n in range(10)).encode()), "tree"
    commit = git("commit-tree", "-m", "a", name)
    code = """
from pathlib import Path
from reenact.provenance.git import GitError, Repository
def act(given):
    with Repository(Path(given[0])) as repository:
        try:
            repository.files(given[1])
        except GitError as error:
            return str(error)
"""
    found = measured(code, [str(tmp_path), commit])
    assert "says more than" in found.result
    assert found.peak_mb < ALLOWED_MB
