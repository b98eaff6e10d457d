"""Skills that must be killable run in a process of their own: a time-out ends them, whatever they do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

import msgspec

from reenact.contracts.facts import Facts
from reenact.policy.classify import facts_of
from reenact.skills.context import Report, SkillContext
from reenact.skills.skill import Skill


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a child says before it ends."""

    output: Any = None
    facts: Facts | None = None
    message: str = ""
    details: dict[str, Any] | None = None
    report: dict[str, Any]


class ChildFailure(Exception):  # carries what happened elsewhere
    """A skill failed in its own process; the facts were taken there."""

    def __init__(self, message: str, facts: Facts, details: dict[str, object] | None) -> None:
        super().__init__(message)
        self.facts = facts
        self.details = details or {}


async def call_in_process(skill: Skill, ctx: SkillContext, parameters: Mapping[str, object], limit_s: float) -> object:
    """The skill's output; raises TimeoutError after killing it, ChildFailure when it failed."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        be_the_child(skill, ctx, parameters, write_end)
    os.close(write_end)
    try:
        async with asyncio.timeout(limit_s):
            data = await read_all(read_end)
    finally:
        end(pid)
    if not data:
        raise RuntimeError("the skill's process ended without an answer")
    answer = msgspec.msgpack.decode(data, type=Answer)
    for name, value in answer.report.items():
        setattr(ctx.report, name, value)
    if answer.facts is not None:
        raise ChildFailure(answer.message, answer.facts, answer.details)
    return answer.output


def be_the_child(skill: Skill, ctx: SkillContext, parameters: Mapping[str, object], write_end: int) -> None:
    """Runs the skill and answers. Never returns: nothing of the parent may run twice."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        asyncio._set_running_loop(None)  # noqa: SLF001  # the parent's loop is not ours
        answer = attempt(skill, ctx, parameters)
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(answer))
        code = 0
    finally:
        os._exit(code)


def attempt(skill: Skill, ctx: SkillContext, parameters: Mapping[str, object]) -> Answer:
    try:
        output = skill.call_sync(ctx, parameters)
    except BaseException as error:  # noqa: BLE001  # whatever a skill raises is an outcome
        details = getattr(error, "details", None)
        return Answer(
            facts=facts_of(error),
            message=str(error) or type(error).__name__,
            details=details if isinstance(details, dict) else None,
            report=described(ctx.report),
        )
    return Answer(output=output, report=described(ctx.report))


def described(report: Report) -> dict[str, Any]:
    return {
        "side_effects": report.side_effects,
        "request_id": report.request_id,
        "usage": report.usage,
        "model": report.model,
        "finish_reason": report.finish_reason,
        "retry_after_ms": report.retry_after_ms,
        "http_status": report.http_status,
        "raw_response": report.raw_response,
        "has_raw_response": report.has_raw_response,
    }


async def read_all(descriptor: int) -> bytes:
    """Everything until the other end closes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            return await reader.read(-1)
        finally:
            transport.close()


def end(pid: int) -> None:
    """Nothing of the child is left, nor of what it started in its group."""
    for kill, target in ((os.killpg, pid), (os.kill, pid)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return
