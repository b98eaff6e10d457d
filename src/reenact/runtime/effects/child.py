"""In a skill's own process: get the call, find the skill, run it, answer."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec

from reenact.contracts.facts import Facts
from reenact.policy.classify import facts_of
from reenact.runtime.effects import reports
from reenact.skills.context import Remarks, SkillContext
from reenact.skills.home import Home, find_at
from reenact.skills.skill import Skill

HEAD: Final = struct.Struct(">cQ")
"""Of a message: what it is, and how long."""
BEGUN: Final = b"b"
PROGRESS: Final = b"p"
ANSWER: Final = b"a"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A call, and what of the runtime's process its skill may expect to find."""

    home: Home
    context: dict[str, Any]
    parameters: dict[str, Any]
    environ: list[tuple[bytes, bytes]]
    folder: str
    path: list[str]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a child says before it ends."""

    output: Any = None
    facts: Facts | None = None
    message: str = ""
    details: dict[str, Any] | None = None
    unsure: bool = False
    """Whether nobody can tell what it had done when it failed."""
    report: dict[str, Any]


def message(kind: bytes, body: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(body)) + body


def be_the_child(line: socket.socket, output: int, errors: int) -> NoReturn:
    """Never returns: nothing of the process that this one was forked from may run twice."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.close(output)
        os.close(errors)
        serve_one(line)
        code = 0
    finally:
        os._exit(code)


def serve_one(line: socket.socket) -> None:
    process = os.getpid()
    request = msgspec.msgpack.decode(receive(line), type=Request)
    settle_in(request)
    try:
        skill = find_at(request.home)
    except BaseException as error:  # noqa: BLE001  # whatever a module does when it is imported
        line.sendall(message(BEGUN) + message(ANSWER, msgspec.msgpack.encode(failure(error, Remarks()))))
        return
    line.sendall(message(BEGUN))
    ctx = SkillContext(
        **request.context,
        on_progress=lambda text: line.sendall(message(PROGRESS, text.encode("utf-8", "replace"))),
    )
    answer = msgspec.msgpack.encode(attempt(skill, ctx, request.parameters))
    if os.getpid() != process:  # a child that the skill forked and let return
        os._exit(1)
    for stream in (sys.stdout, sys.stderr):  # once it has answered it is ended
        with suppress(OSError, ValueError):
            stream.flush()
    line.sendall(message(ANSWER, answer))


def receive(line: socket.socket) -> bytes:
    with line.makefile("rb") as file:
        _, size = HEAD.unpack(file.read(HEAD.size))
        return file.read(size)


def settle_in(request: Request) -> None:
    """As the runtime's process is now: it may have changed since this one's was started."""
    os.environb.clear()
    os.environb.update(request.environ)
    with suppress(OSError):
        os.chdir(request.folder)
    sys.path[:] = request.path


def attempt(skill: Skill, ctx: SkillContext, parameters: dict[str, Any]) -> Answer:
    try:
        output = skill.call_sync(ctx, parameters)
    except BaseException as error:  # noqa: BLE001  # whatever a skill raises is an outcome
        try:
            return failure(error, ctx.close(), unsure=reports.is_unsure(error, skill.function))
        except BaseException:  # noqa: BLE001  # asked what it is, it raises
            return failure(reports.Wordless(type(error).__name__), ctx.close(), unsure=True)
    return Answer(output=output, report=described(ctx.close()))


def failure(error: BaseException, report: Remarks, *, unsure: bool = False) -> Answer:
    found = facts_of(error)
    details = getattr(error, "details", None)
    return Answer(
        facts=Facts(exceptions=reports.recordable(found), http_status=reports.whole(found.http_status)),
        message=reports.text(error) or type(error).__name__,
        details={reports.text(name): reports.plain(value) for name, value in details.items()}
        if isinstance(details, dict)
        else None,
        unsure=unsure,
        report=described(report),
    )


def described(report: Remarks) -> dict[str, Any]:
    """In words that can be sent: a skill may say anything of itself."""
    usage = report.usage
    return {
        "side_effects": reports.side_effects(report),
        "request_id": None if report.request_id is None else reports.text(report.request_id),
        "usage": None if usage is None else {name: reports.whole(count) or 0 for name, count in usage.items()},
        "model": None if report.model is None else reports.text(report.model),
        "finish_reason": None if report.finish_reason is None else reports.text(report.finish_reason),
        "retry_after_ms": reports.whole(report.retry_after_ms),
        "http_status": reports.whole(report.http_status),
        "raw_response": report.raw_response,
        "has_raw_response": report.has_raw_response,
        "utility": report.utility,
        "refused": report.refused and tuple(map(reports.text, report.refused)),
    }
