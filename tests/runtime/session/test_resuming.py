"""A session that a crash interrupted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.errors import UsageError, WaitingForPerson
from reenact.record.reader import RunReader
from reenact.runtime import crash_points
from reenact.store.checks.verification import verify_run
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


def crash_in_child(path: Path, point: str) -> None:
    """A real process that is killed at a crash point while a session's second call runs."""
    pid = os.fork()
    if pid == 0:
        world = World()
        runtime = Runtime(store_at(path), skills=world.skills())
        with runtime.session(goal="g") as session:
            session.call("search", {"q": "x"})
            crash_points.arm(point)
            session.call("order", {"item": "y"})
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_an_interrupted_call_gets_a_synthesized_result_by_an_appended_record(tmp_path: Path, world: World) -> None:
    path = tmp_path / "store.db"
    crash_in_child(path, "after_dispatch")
    runtime = Runtime(store_at(path), skills=world.skills())
    run_id = runtime.store.find_run("last").run_id
    with runtime.session(resume=run_id) as session:
        history = session.history()
        session.call("search", {"q": "z"})
    assert [message["role"] for message in history] == ["assistant", "tool"] * 2
    assert "ERR_IN_DOUBT" in str(history[3]["content"])
    assert world.calls == {"search": 1}
    reader = RunReader(runtime.store, run_id)
    codes = [step.outcome().code for step in reader.steps()]
    assert codes == ["OK", "ERR_IN_DOUBT", "OK"]
    assert [event.type for event in reader.fold.events].count("synthesized") == 1
    assert verify_run(runtime.store.url, run_id).exit_code == 0


def test_settling_drives_the_interrupted_call_to_its_end_with_the_same_key(tmp_path: Path, world: World) -> None:
    path = tmp_path / "store.db"
    crash_in_child(path, "before_dispatch")
    runtime = Runtime(store_at(path), skills=world.skills())
    run_id = runtime.store.find_run("last").run_id
    result = runtime.resume(run_id)
    assert result.status == "pending"
    with runtime.session(resume=run_id, interrupted="settle") as session:
        anthropic = session.history(style="anthropic")
    assert world.calls == {"order": 1}
    assert len(anthropic) == 4
    assert verify_run(runtime.store.url, run_id).exit_code == 0


@pytest.mark.parametrize(("point", "status"), [("before_seal", "running"), ("after_seal", "completed")])
def test_a_session_is_whole_on_either_side_of_its_seal(point: str, status: str, tmp_path: Path, world: World) -> None:
    path = tmp_path / "store.db"
    crash_in_child(path, point)
    runtime = Runtime(store_at(path), skills=world.skills())
    row = runtime.store.find_run("last")
    assert row.status == status
    if status == "running":
        with runtime.session(resume=row.run_id):
            pass
    assert [step.outcome().code for step in RunReader(runtime.store, row.run_id).steps()] == ["OK", "OK"]
    assert world.calls == {}
    assert verify_run(runtime.store.url, row.run_id).exit_code == 0


def test_a_block_that_raises_leaves_a_session_that_can_be_resumed(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), runtime.session() as session:
        session.call("search", {"q": "x"})
        _ = 1 / 0
    with runtime.session(resume=session.run_id) as again:
        again.call("search", {"q": "y"})
    assert runtime.store.find_run(session.run_id).status == "completed"


def test_a_session_that_ended_cannot_be_resumed_and_a_closed_one_not_be_used(runtime: Runtime) -> None:
    with runtime.session() as session:
        pass
    with pytest.raises(UsageError, match="has ended"), runtime.session(resume=session.run_id):
        pass


def test_a_call_that_needs_a_person_parks_the_session(runtime: Runtime, world: World) -> None:
    with pytest.raises(WaitingForPerson), runtime.session(context={"supervisor": "ask"}) as session:
        session.call("mail", {"to": "a"})
    assert runtime.store.find_run(session.run_id).status == "waiting"
    assert world.calls == {}
