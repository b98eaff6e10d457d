"""A run goes on with the skills that it began with. Where one is absent it is held, and never failed for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reenact import Runtime, skill
from reenact.runtime import crash_points
from reenact.runtime.effects.coroutines import run_sync
from reenact.runtime.people.decisions import vote
from reenact.store.owner import owner_is_gone, owner_name, process_started
from tests.engines.places import store_at
from tests.runtime.running import Bench, step

SENT: list[str] = []


@skill("note", version="1.0.0", tool_class="read")
def note(text: str) -> dict[str, str]:
    """Gives back what it got."""
    return {"text": text}


@skill("send", version="1.0.0", tool_class="write", honours_key=True)
def send(text: str) -> dict[str, str]:
    """Counts what it sent."""
    SENT.append(text)
    return {"text": text}


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def checkpoints(bench: Bench, run_id: str) -> list[tuple[str, int]]:
    """(state, entries) of each trace that says where it parked."""
    lines = [msgspec.json.decode(line) for body in bench.store.bodies(run_id) for line in bytes(body).splitlines()]
    inner = [line["checkpoint"]["checkpoint_state"] for line in lines if line["kind"] == "checkpoint"]
    return [(state["current_state"], state["last_sequence_number"]) for state in inner]


def killed_in_a_child(work: Callable[[], object], point: str) -> None:
    pid = os.fork()
    if pid == 0:
        crash_points.arm(point)
        work()
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


@pytest.mark.parametrize("point", ["before_dispatch:2", "after_dispatch:2"])
def test_a_call_in_doubt_whose_skill_is_absent_is_held_and_goes_on_with_it(tmp_path: Path, point: str) -> None:
    plan = (step(note, {"text": "a"}), step(send, {"text": "b"}))
    killed_in_a_child(lambda: Bench(tmp_path, note, send).run(*plan), point)
    bare = Bench(tmp_path, note)
    commits = bare.store.find_run("last").commits
    for _ in range(2):
        held = bare.runtime.resume("last")
        assert held.status == "held"
        assert "send@1.0.0" in str(held.reason)
        assert "--skills" in str(held.reason)
        # It parks with a checkpoint; asking again charges nothing and records nothing.
        assert bare.store.find_run("last").commits == commits + 1
        assert checkpoints(bare, held.run_id) == [("EXECUTING", 3)]
    bare.check(held.run_id, exit_code=4)
    done = Bench(tmp_path, note, send).runtime.resume("last")
    assert (done.status, SENT) == ("completed", ["b"])
    bare.check(done)


def test_a_step_that_was_not_begun_is_held_too(tmp_path: Path) -> None:
    plan = (step(note, {"text": "a"}), step(send, {"text": "b"}))
    killed_in_a_child(lambda: Bench(tmp_path, note, send).run(*plan), "after_dispatch:1")
    held = Bench(tmp_path, note).runtime.resume("last")
    assert (held.status, held.steps) == ("held", ["s0"])
    done = Bench(tmp_path, note, send).runtime.resume("last")
    assert (done.status, SENT) == ("completed", ["b"])


def test_an_approved_call_waits_for_its_skill(tmp_path: Path) -> None:
    bench = Bench(tmp_path, note, send)
    run_id = bench.run(step(send, {"text": "b"}), supervisor="ask").run_id
    bare = Bench(tmp_path)
    run_sync(vote(bare.runtime, run_id, None, approve=True, reason="it may"))
    assert [result.status for result in bare.runtime.recover()] == ["held"]
    assert SENT == []
    assert bench.runtime.resume(run_id).status == "completed"
    bench.check(run_id)


def test_a_session_left_open_is_held_without_its_skill(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")

    def loop() -> None:
        with Runtime(store_at(path), skills=[send]).session(goal="g") as session:
            session.call("send", {"text": "b"})

    killed_in_a_child(loop, "before_dispatch")
    for _ in range(2):
        held = Runtime(store_at(path)).resume("last")
        assert (held.status, SENT) == ("held", [])
        assert "send@1.0.0" in str(held.reason)
        assert checkpoints(Bench(tmp_path), held.run_id) == [("EXECUTING", 3)]
    assert Runtime(store_at(path), skills=[send]).resume("last").status == "pending"
    assert SENT == ["b"]


def test_a_skill_that_was_never_there_fails_its_step_at_once(tmp_path: Path) -> None:
    result = Bench(tmp_path).run(step("nowhere"))
    assert (result.status, result.final_code) == ("failed", "ERR_SKILL_NOT_FOUND")


def test_a_process_that_died_and_was_not_collected_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        host = owner_name("nonce").split("|")[0]
        owner = f"{host}|{child.pid}|{process_started(child.pid)}|nonce"
        assert not owner_is_gone(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table of processes
        assert owner_is_gone(owner)
    finally:
        child.communicate()
