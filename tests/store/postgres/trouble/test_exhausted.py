"""A server without room, or with too many connections: told in a line, nothing is lost, and the run goes on later."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from reenact import Runtime, skill
from reenact.errors import StoreBusy, StoreUnavailable
from reenact.store.checks.verification import verify_run
from reenact.store.open import open_store
from reenact.store.postgres.opened import database
from tests.cli.harness import Command, error_line
from tests.postgres.fixtures import Schemas, schema_at
from tests.postgres.server import Server
from tests.store.postgres.trouble.disk import Disk, small_disk

SENT: list[int] = []
ENOUGH = 1300 << 10


@skill("fetch", version="1.0.0", tool_class="write", honours_key=True)
def fetch(number: int) -> str:
    """More than there is room for, where there is little."""
    SENT.append(number)
    return large() if number == 2 else f"answer {number}"


def large() -> str:
    return os.urandom(ENOUGH).hex()


def plan(*numbers: int) -> dict[str, object]:
    steps = [{"step_id": f"s{number}", "skill_id": "fetch", "parameters": {"number": number}} for number in numbers]
    return {"plan_id": "p", "agent_id": "a", "steps": steps}


@pytest.fixture
def disk(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Disk, str]]:
    """What fills it, and the URL of a store on it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    SENT.clear()
    with (
        small_disk(postgres, "small", postgres.folder / "disk") as small,
        schema_at(postgres.url(database="small")) as url,
    ):
        open_store(url).close()
        yield small, url
        small.free()


def test_a_run_goes_on_when_a_full_disk_has_room_again(disk: tuple[Disk, str]) -> None:
    small, url = disk
    with closing(Runtime(url, skills=[fetch])) as runtime:
        runtime.run(plan(1))
        small.fill()
        with pytest.raises(StoreUnavailable, match="the server's disk is full: free some space there"):
            runtime.run(plan(1, 2, 3))
        assert SENT == [1, 1, 2], "nothing is sent while what came before is not on record"
        small.free()
        (ended,) = runtime.recover()
        assert ended.status == "completed"
        assert SENT == [1, 1, 2, 2, 3], "the tool honours our key: the same call again"
        assert {verify_run(url, row.run_id).exit_code for row in runtime.store.runs()} == {0}


def test_a_session_keeps_what_was_done_while_the_disk_was_full(disk: tuple[Disk, str]) -> None:
    small, url = disk
    with closing(Runtime(url, skills=[fetch])) as runtime:
        with runtime.session() as session:
            session.call("fetch", {"number": 1})
            small.fill()
            with pytest.raises(StoreUnavailable, match="disk is full"):
                session.call("fetch", {"number": 2})
            small.free()
            session.call("fetch", {"number": 3})
        (row,) = runtime.store.runs()
        assert (row.status, SENT) == ("completed", [1, 2, 3])
        result = verify_run(url, row.run_id)
        assert (result.exit_code, result.report.first_break, result.differences) == (0, None, ())


def test_the_command_says_that_the_disk_is_full(disk: tuple[Disk, str], tmp_path: Path, postgres: Server) -> None:
    small, url = disk
    command = Command(tmp_path)
    path = command.plan({"skill_id": "json_transform", "parameters": {"data": [large()], "operation": "sort"}})
    small.fill()
    done = command("run", path, REENACT_STORE=url)
    assert (done.code, "disk is full" in error_line(done)) == (3, True), done.err
    assert postgres.password not in done.out + done.err
    small.free()
    assert command("run", path, REENACT_STORE=url).code == 0
    assert command("verify", "last", REENACT_STORE=url).code == 0


# -- connections -------------------------------------------------------------------------------------------------------


@pytest.fixture
def url(new_schema: Schemas) -> Iterator[str]:
    SENT.clear()
    with new_schema() as found:
        open_store(found).close()
        yield found


def all_taken(server: Server) -> ExitStack:
    """Every connection that the server gives to anybody but its superuser."""
    taken = ExitStack()
    with pytest.raises(psycopg.OperationalError, match=r"connection|clients"):  # which one is the last
        while True:
            taken.enter_context(server.connect(database="reenact", role="reenact"))
    return taken


def end_all(server: Server) -> None:
    """Every connection that there is."""
    for thread in threading.enumerate():
        if thread.name == "reenact-log":
            thread.join()  # or it makes new ones
    for pid in server.backends():
        server.execute("SELECT pg_terminate_backend(%s, 5000)", pid)


def test_too_many_connections(url: str, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Command(tmp_path)
    monkeypatch.setattr(database, "TRYING_S", 0.8)
    with closing(Runtime(url, skills=[fetch])) as runtime:
        runtime.run(plan(1))
        end_all(postgres)
        with all_taken(postgres):
            with pytest.raises(StoreBusy, match="give the server more connections, or put a pooler before it"):
                runtime.run(plan(1, 3))
            done = command("ls", REENACT_STORE=url)
            assert (done.code, done.out) == (3, "")
            assert "give the server more connections, or put a pooler before it" in error_line(done)
            assert postgres.password not in done.err
        assert runtime.run(plan(1, 3)).status == "completed"
        assert {verify_run(url, row.run_id).exit_code for row in runtime.store.runs()} == {0}


def test_a_run_that_loses_its_connections_waits_until_there_are_some_again(
    url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when somebody else has opened too many for a moment."""
    taken: list[ExitStack] = []

    @skill("crowd", version="1.0.0", tool_class="read")
    def crowd() -> str:
        end_all(postgres)
        taken.append(all_taken(postgres))
        return "done"

    def let_go(_: float) -> None:
        if taken:
            taken.pop().close()

    steps = [{"step_id": "s", "skill_id": "crowd", "parameters": {}}]
    monkeypatch.setattr(database.time, "sleep", let_go)
    with closing(Runtime(url, skills=[crowd])) as runtime:
        assert runtime.run({"plan_id": "p", "agent_id": "a", "steps": steps}).status == "completed"
    assert taken == []
