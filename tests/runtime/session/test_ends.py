"""How a session ends: with calls under way, after its last word, by Ctrl-C; and how it checks its work."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reenact import Registry, Runtime, skill
from reenact.errors import UsageError
from reenact.record.reader import RunReader
from reenact.runtime.session.session import Session
from reenact.store.checks.verification import verify_run
from tests import ctrl_c
from tests.engines.places import store_at
from tests.runtime.session.conftest import World


def test_a_block_that_ends_waits_for_the_calls_that_are_under_way(tmp_path: Path) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @skill("slow", version="1.0.0", tool_class="write")
    async def slow() -> int:
        begun.set()
        await may_end.wait()
        return 7

    runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([slow]))

    async def work() -> tuple[str, object]:
        async with runtime.session() as session:
            call = asyncio.create_task(session.call("slow"))
            await begun.wait()
            asyncio.get_running_loop().call_later(0.05, may_end.set)
        return session.run_id, (await call).output

    run_id, output = asyncio.run(work())
    assert output == 7
    assert [step.outcome().code for step in RunReader(runtime.store, run_id).steps()] == ["OK"]
    assert verify_run(runtime.store.url, run_id).exit_code == 0


def test_nothing_is_called_while_a_session_ends(runtime: Runtime) -> None:
    async def work() -> str:
        async def late(session: Session) -> None:
            while not session._closing:  # noqa: ASYNC110  # what is looked for is the moment in which it ends
                await asyncio.sleep(0)
            with pytest.raises(UsageError, match="has ended"):
                await session.call("search", {"q": "late"})

        async with runtime.session() as session:
            await session.call("search", {"q": "x"})
            task = asyncio.create_task(late(session))
        await task
        return session.run_id

    assert verify_run(runtime.store.url, asyncio.run(work())).exit_code == 0


def test_after_its_last_word_a_session_calls_nothing(runtime: Runtime, world: World) -> None:
    with runtime.session() as session:
        session.call("search", {"q": "x"})
        session.finish(confidence=0.5)
        for use in (lambda: session.call("search", {"q": "y"}), session.turn, lambda: session.verify(["true"])):
            with pytest.raises(UsageError, match="last word"):
                use()
        assert len(session.history()) == 2
    assert world.calls == {"search": 1}


@pytest.mark.parametrize(
    ("commands", "options"),
    [
        ("true", {}),
        (b"true", {}),
        ([""], {}),
        (["  "], {}),
        (["''"], {}),
        ([5], {}),
        ([["true"]], {}),
        (["true 'and"], {}),
        (["true\0"], {}),
        (None, {}),
        (["true"], {"timeout_s": 0}),
        (["true"], {"timeout_s": "1"}),
    ],
    ids=str,
)
def test_commands_that_cannot_be_any_are_refused_before_one_is_run(
    runtime: Runtime, commands: Any, options: dict[str, Any]
) -> None:
    with runtime.session() as session:
        with pytest.raises(UsageError):
            session.verify(commands, **options)
        assert session.verify(["true"]) == [0]
    reader = RunReader(runtime.store, session.run_id)
    list(reader.steps())
    assert [event.type for event in reader.fold.events] == ["turn", "verify", "finish"]


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(runtime: Runtime, tmp_path: Path) -> None:
    mark = tmp_path / "child"
    script = tmp_path / "forks.py"
    script.write_text(
        "import pathlib, subprocess, time\n"
        f"pathlib.Path({str(mark)!r}).write_text(str(subprocess.Popen(['sleep', '60']).pid))\n"
        "time.sleep(60)\n"
    )
    with runtime.session() as session:
        for limit_s in (0.5, 5, 50):  # on a busy machine it may end before the child is there
            assert session.verify([f"{sys.executable} {script}"], timeout_s=limit_s) == [124]
            if mark.exists() and mark.read_text():
                break
    child = int(mark.read_text())
    deadline = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < deadline, "what the command started goes on"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


HOST = """
import asyncio, pathlib, sys
from reenact import Registry, Runtime, skill

@skill("slow", version="1.0.0", tool_class="write")
async def slow() -> int:
    (pathlib.Path(sys.argv[2]) / "begun").write_text("")
    await asyncio.sleep(60)
    return 1

with Runtime(sys.argv[1], skills=Registry([slow])).session() as session:
    session.call("slow")
"""


def test_ctrl_c_leaves_a_session_without_a_task_behind(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with ctrl_c.heard():
        host = subprocess.Popen(
            [sys.executable, "-c", HOST, store_at(path), str(tmp_path)], stderr=subprocess.PIPE, text=True
        )
    with host:
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < deadline
        os.kill(host.pid, signal.SIGINT)
        said = host.communicate(timeout=60)[1]
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "destroyed" not in said
    assert "ImportError" not in said
    runtime = Runtime(store_at(path))
    run_id = runtime.store.find_run("last").run_id
    assert runtime.store.find_run(run_id).status == "running"
    assert verify_run(store_at(path), run_id).exit_code == 4
