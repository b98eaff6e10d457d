"""Skills that must be killable, and journals that cannot be written."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import StoreError, StoreUnavailable
from reenact.store.base import Lease, Unit
from tests.engines.places import store_at


@skill(
    "wild",
    version="1.0.0",
    tool_class="read",
    isolation="process",
    side_effects=["http_request"],
    retry={"max_retries": 0},
)
def wild(ctx: SkillContext, what: str) -> int:
    """Does what no thread may do."""
    ctx.side_effect("http_request", "example.com")
    if what == "exit":
        sys.exit(3)
    elif what == "die":
        os._exit(4)
    elif what == "refuse":
        raise ConnectionRefusedError(111, "no")
    return os.getpid()


@skill("hang", version="1.0.0", tool_class="read", isolation="process", timeout_ms=3_000, retry={"max_retries": 0})
def hang(where: str) -> None:
    """Says who it is, and does not end."""
    Path(where).write_text(str(os.getpid()))
    time.sleep(600)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("exit", "ERR_INTERNAL"),
        ("die", "ERR_INTERNAL"),
        ("refuse", "ERR_CONNECTION_REFUSED"),
        ("work", "OK"),
    ],
)
def test_a_skill_in_a_process_of_its_own_cannot_hurt_the_run(what: str, code: str) -> None:
    runtime = Runtime(store_at(":memory:"), skills=Registry([wild]))
    with runtime.session() as session:
        outcome = session.call("wild", {"what": what})
    assert outcome.code == code
    if code == "OK":
        assert outcome.output != os.getpid()
        assert [effect.type for effect in outcome.side_effects] == ["http_request"]


def test_nothing_of_a_killed_skill_is_left_running(tmp_path: Path) -> None:
    runtime = Runtime(store_at(":memory:"), skills=Registry([hang]))
    with runtime.session() as session:
        assert session.call("hang", {"where": str(tmp_path / "pid")}).code == "ERR_TIMEOUT"
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@skill("look", version="1.0.0", tool_class="read")
async def look(q: str) -> str:
    return q


@skill("touch", version="1.0.0", tool_class="write")
async def touch(q: str) -> str:
    TOUCHED.append(q)
    return q


TOUCHED: list[str] = []


class FullDisk:
    """Lets appends fail on demand, as a full disk does: before anything is written."""

    def __init__(self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        real = runtime.store.append

        def append(unit: Unit, lease: Lease | None, *, owner: str = "") -> Lease:
            if self.full:
                raise StoreUnavailable("the disk is full")
            return real(unit, lease, owner=owner)

        monkeypatch.setattr(runtime.store, "append", append)


def test_effects_fail_closed_and_reads_go_on_only_where_allowed_and_never_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    TOUCHED.clear()
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([look, touch]))
    disk = FullDisk(runtime, monkeypatch)
    with runtime.session(unrecorded_reads=True) as session:
        disk.full = True
        with caplog.at_level(logging.WARNING, logger="reenact.journal"):
            read = session.call("look", {"q": "x"})
        with pytest.raises(StoreError):
            session.call("touch", {"q": "x"})
        disk.full = False
        session.call("look", {"q": "y"})
    assert read.output == "x"
    assert read.details is not None
    assert read.details["unrecorded"] is True
    assert "goes on without a record" in caplog.text
    assert TOUCHED == []


def test_without_that_leave_reads_fail_closed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(store_at(tmp_path / "store.db"), skills=Registry([look]))
    disk = FullDisk(runtime, monkeypatch)
    with pytest.raises(StoreError), runtime.session() as session:
        disk.full = True
        session.call("look", {"q": "x"})
    assert runtime.store.find_run("last").status == "running"
