"""Commands that check a session's work: nothing of them outlives what started them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import Runtime
from reenact.record.reader import RunReader
from reenact.runtime.session import checks
from tests.attacks.sandbox.probes import marked
from tests.engines.places import store_at

TREE = """
import os, sys, time
for depth in range(3):
    if os.fork() == 0:
        os.setsid()
if len(sys.argv) > 2:
    sys.exit(3)
time.sleep(600)
"""
"""Eight processes, most of them in sessions of their own."""
HOST = """
import sys
from reenact import Runtime
with Runtime(sys.argv[1]).session() as s:
    s.verify([f"{sys.executable} {sys.argv[2]} {sys.argv[3]}"])
"""


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"reenact-check-{uuid.uuid4().hex}"
    yield mark
    for pid in marked(mark):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "tree.py"
    path.write_text(TREE)
    return path


def wait_until(mark: str, *, count: int, least: bool = False) -> bool:
    deadline = time.monotonic() + 30
    while (len(marked(mark)) < count) if least else (len(marked(mark)) != count):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_nothing_outlives_a_host_that_is_killed(tmp_path: Path, script: Path, mark: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, store_at(tmp_path / "store.db"), str(script), mark])
    try:
        assert wait_until(mark, count=8, least=True)
    finally:
        host.kill()
        host.wait()
    assert wait_until(mark, count=0), marked(mark)


def test_nothing_outlives_a_time_limit_or_the_command_itself(tmp_path: Path, script: Path, mark: str) -> None:
    with Runtime(store_at(tmp_path / "store.db")).session() as s:
        assert s.verify([f"{sys.executable} {script} {mark}"], timeout_s=2) == [124]
        assert marked(mark) == []
        assert s.verify([f"{sys.executable} {script} {mark} ends"]) == [3]
        assert marked(mark) == []


def test_a_command_is_run_as_its_host_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the environment and the folder of the host, from its PATH, however much it prints."""
    monkeypatch.setenv("REENACT_TEST_CHECK", "seen")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    own = tmp_path / "bin" / "own-check"
    own.write_text('#!/bin/sh\ntest "$REENACT_TEST_CHECK" = seen && test -f here && head -c 9000000 /dev/zero\n')
    own.chmod(0o755)
    (tmp_path / "here").touch()
    (tmp_path / "not-executable").touch()
    runtime = Runtime(store_at(tmp_path / "store.db"))
    with runtime.session(context={"workspace": str(tmp_path)}) as s:
        commands = ["own-check", "./bin/own-check", "./not-executable", "./nowhere", "nowhere", "sh -c 'exit 7'"]
        assert s.verify(commands) == [0, 0, 127, 127, 127, 7]


def printed(runtime: Runtime, run_id: str) -> list[dict[str, dict[str, object]]]:
    """What is on record of the outputs of a session's one verification."""
    reader = RunReader(runtime.store, run_id)
    list(reader.steps())
    [event] = [event for event in reader.fold.events if event.type == "verify"]
    value = reader.payloads.get(str(event.data))
    assert isinstance(value, dict)
    return value["outputs"]  # type: ignore[no-any-return]


def test_what_commands_print_is_recorded_cut_and_hashed_whole(tmp_path: Path) -> None:
    program = "import sys; print('a' * 5000 + 'm' * 10 + 'z' * 5000, end=''); print('wrong', file=sys.stderr)"
    with Runtime(store_at(tmp_path / "store.db")).session() as session:
        assert session.verify([shlex.join([sys.executable, "-c", program]), "no-such-command", "true"]) == [0, 127, 0]
    first, missing, silent = printed(Runtime(store_at(tmp_path / "store.db")), session.run_id)
    text = "a" * 5000 + "m" * 10 + "z" * 5000
    assert first["stdout"] == {"bytes": 10010, "hash": hash_of(text), "text": f"{'a' * 5000}...{'z' * 5000}"}
    assert first["stderr"] == {"bytes": 6, "hash": hash_of("wrong\n"), "text": "wrong\n"}
    nothing = {"bytes": 0, "hash": hash_of(""), "text": ""}
    assert (missing["stdout"], silent["stdout"], silent["stderr"]) == (nothing, nothing, nothing)


def hash_of(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


def test_a_secret_that_a_command_prints_is_neither_kept_nor_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse-battery-staple"
    monkeypatch.setenv("SHOP_TOKEN", secret)
    runtime = Runtime(store_at(tmp_path / "store.db"), secrets={"SHOP_TOKEN": secret})
    program = "import os; print('x' * 4990 + os.environ['SHOP_TOKEN'] + 'y' * 9000)"
    runtime.secrets.learn(["SHOP_TOKEN"])
    with runtime.session() as session:
        session.verify([shlex.join([sys.executable, "-c", program])])
    [kept] = printed(runtime, session.run_id)
    text = str(kept["stdout"]["text"])
    assert len(text) == 10003
    assert not any(secret[:size] in text for size in range(4, len(secret)))
    assert kept["stdout"]["hash"] != hash_of("x" * 4990 + secret + "y" * 9000 + "\n")
    assert kept["stdout"]["hash"] == hash_of("x" * 4990 + "[redacted]" + "y" * 9000 + "\n")


def test_a_command_that_prints_without_end_is_read_in_bounded_memory(tmp_path: Path) -> None:
    program = "import sys; [sys.stdout.write('b' * 65536) for _ in range(160)]; sys.stdout.write('the end')"
    runtime = Runtime(store_at(tmp_path / "store.db"))
    with runtime.session() as session:
        session.verify([shlex.join([sys.executable, "-c", program])])
    [kept] = printed(runtime, session.run_id)
    assert kept["stdout"]["bytes"] == 160 * 65536 + 7
    assert str(kept["stdout"]["text"]).endswith("bbbthe end")
    mib = 1 << 20
    assert kept["stdout"]["hash"] == hash_of("b" * mib + "b" * (mib - 7) + "the end")


def test_a_program_that_is_started_again_runs_no_command_twice_and_has_the_same_outputs(tmp_path: Path) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"))
    seen = []
    for _ in range(2):
        with pytest.raises(KeyError), runtime.session(id="checked") as session:
            session.verify([shlex.join(["sh", "-c", f"echo once >> {tmp_path}/times; wc -l < {tmp_path}/times"])])
            raise KeyError
        seen.append(printed(runtime, session.run_id))
    assert seen[0] == seen[1]
    assert (tmp_path / "times").read_text() == "once\n"


@settings(max_examples=60)
@given(parts=st.lists(st.binary(max_size=50), max_size=12), kept=st.integers(1, 40))
def test_the_ends_of_what_is_printed_are_those_of_the_whole(parts: list[bytes], kept: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "KEPT_BYTES", kept)
        ends = checks.Ends()
        for part in parts:
            ends.add(part)
        whole = b"".join(parts)
        expected = whole if len(whole) <= 2 * kept else whole[:kept] + whole[-kept:]
        if len(whole) <= 2 * kept:
            assert ends.shown(str)["hash"] == hash_of(expected.decode("utf-8", "replace"))
        assert bytes(ends.first) + bytes(ends.last[-kept:]) == expected or len(whole) <= kept
        assert ends.size == len(whole)
