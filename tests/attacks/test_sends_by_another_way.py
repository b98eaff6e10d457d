"""Every way by which something is sent, with an approval that is for something else: nothing goes out on any of them.

All of them hand a source what `artifacts.attempt_call` makes, which checks the capability: dispatch (first attempt,
retry, redispatch), a skill in a thread, a coroutine or a process of its own, the read-back of a call in doubt, a full
replay that executes or checks, a fork, a session.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Registry, Runtime, SkillContext, skill
from reenact.errors import NotAuthentic
from reenact.runtime import crash_points
from reenact.runtime.call import capability

LEDGER = Path("ledger")
PLAN = {"plan_id": "p", "agent_id": "a", "steps": [{"step_id": "send", "skill_id": "send", "parameters": {"to": "x"}}]}


def sent(what: str) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(what + "\n")


def turn_coat() -> None:
    """From here on every approval is for another vote than the journal says."""
    capability.vote_in = lambda _: "another vote"  # type: ignore[assignment]


@skill("send", version="1.0.0", tool_class="write")
def in_thread(to: str) -> str:
    sent(to)
    return to


@skill("send", version="1.0.0", tool_class="write")
async def as_coroutine(to: str) -> str:
    sent(to)
    return to


@skill("send", version="1.0.0", tool_class="read", retry={"backoff_base_ms": 1})
def twice(ctx: SkillContext, to: str) -> str:
    if ctx.attempt == 0:
        turn_coat()
        raise TimeoutError
    sent(to)
    return to


@skill("send", version="1.0.0", tool_class="write", isolation="process")
def in_process(to: str) -> str:
    Path(to).write_text("sent\n")
    return to


def read_back(_ctx: SkillContext, to: str) -> dict[str, object]:
    sent(f"asked about {to}")
    return {"done": True, "output": to}


@skill("send", version="1.0.0", tool_class="write", in_doubt="reconcile", reconcile=read_back)
def with_read_back(to: str) -> str:
    sent(to)
    return to


def opened(path: Path, tool: object) -> Runtime:
    return Runtime(str(path), skills=Registry([tool]))  # type: ignore[list-item]


def recorded(path: Path, tool: object) -> str:
    runtime = opened(path, tool)
    result = runtime.run(PLAN)
    runtime.close()
    assert result.status == "completed"
    LEDGER.unlink(missing_ok=True)
    return result.run_id


def cut_off(path: Path, tool: object) -> str:
    child = os.fork()
    if child == 0:
        crash_points.arm("before_dispatch")
        try:
            opened(path, tool).run(PLAN)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    runtime = opened(path, tool)
    run_id = runtime.store.runs()[0].run_id
    runtime.close()
    return run_id


def by_plan(path: Path, tool: object) -> None:
    runtime, plan = opened(path, tool), PLAN
    if tool is in_process:
        plan = {**PLAN, "steps": [{"step_id": "send", "skill_id": "send", "parameters": {"to": str(LEDGER)}}]}
    if tool is not twice:
        turn_coat()
    runtime.run(plan)


def by_session(path: Path, tool: object) -> None:
    with opened(path, tool).session(agent_id="a") as session:
        turn_coat()
        session.call("send", {"to": "x"})


def by_async_session(path: Path, tool: object) -> None:
    async def loop() -> None:
        async with opened(path, tool).session(agent_id="a") as session:
            turn_coat()
            await session.call("send", {"to": "x"})

    asyncio.run(loop())


def by_recovery(path: Path, tool: object) -> None:
    run_id = cut_off(path, tool)
    turn_coat()
    opened(path, tool).resume(run_id)


def by_full_replay(path: Path, tool: object) -> None:
    run_id = recorded(path, tool)
    turn_coat()
    opened(path, tool).replay(run_id, mode="full_replay", execute=["send"])


def by_check(path: Path, tool: object) -> None:
    run_id = recorded(path, tool)
    turn_coat()
    opened(path, tool).replay(run_id, mode="full_replay", check=["send"])


def by_fork(path: Path, tool: object) -> None:
    run_id = recorded(path, tool)
    turn_coat()
    opened(path, tool).fork(run_id, "send", live=True)


WAYS: list[tuple[Callable[[Path, object], None], object]] = [
    (by_plan, in_thread), (by_plan, as_coroutine), (by_plan, twice), (by_plan, in_process),
    (by_session, in_thread), (by_async_session, as_coroutine),
    (by_recovery, in_thread), (by_recovery, with_read_back),
    (by_full_replay, in_thread), (by_check, with_read_back), (by_fork, in_thread),
]  # fmt: skip


@pytest.mark.parametrize("switched_off", [False, True], ids=["checked", "control"])
@pytest.mark.parametrize(("way", "tool"), WAYS, ids=[f"{way.__name__}-{tool.function.__name__}" for way, tool in WAYS])  # type: ignore[attr-defined]
def test_nothing_is_sent_that_was_not_approved(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[Path, object], None],
    tool: object,
    switched_off: bool,
) -> None:
    """The approval is for another vote. The control has no check: there it is sent."""
    monkeypatch.setitem(globals(), "LEDGER", tmp_path / "ledger")
    monkeypatch.setattr(capability, "vote_in", capability.vote_in)  # put back afterwards
    if switched_off:
        monkeypatch.setattr(capability, "check", lambda _: None)
        way(tmp_path / "store.db", tool)
    else:
        with pytest.raises(NotAuthentic, match="nothing is sent"):
            way(tmp_path / "store.db", tool)
    assert LEDGER.exists() == switched_off


def test_there_is_no_other_way() -> None:
    """Whoever hands something to a source has it from `attempt_call`; a replay in a test runs its own recording."""
    source = Path(capability.__file__).parents[2]
    found = {
        f"{file.relative_to(source)}: {line.strip()}"
        for file in source.rglob("*.py")
        for line in file.read_text().splitlines()
        if re.search(r"source\.(attempt|reconcile|left_behind)\(", line)
        and "def " not in line
        and "artifacts.attempt_call(call, number)" not in line
        and file.parent.name != "sources"
    }
    assert found == {"runtime/session/answering/in_test.py: result = await self._source.attempt(again)"}
