"""Skills that must be killable run in a process of their own: a time-out ends them, whatever they do.

That process is forked by another one, the fork server (`reenact.runtime.effects.forkserver`), which is started with the
first such call and ends with this process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from reenact.runtime.effects.child import ANSWER, HEAD, PROGRESS, Answer, Request, message
from reenact.runtime.effects.forkserver import NUMBER, end
from reenact.runtime.effects.reports import ChildDied, ChildFailure
from reenact.skills.context import SkillContext, portable
from reenact.skills.home import home_of
from reenact.skills.skill import Skill
from reenact.values.threads import build

START_LIMIT_S: Final = 60.0
"""Until the skill's module is imported. Its own time counts from then on."""
END_LIMIT_S: Final = 5.0
"""A process that was killed and does not end waits for a disk or a driver; nobody waits for that."""
CHUNK: Final = 1 << 20
LARGEST_MESSAGE: Final = 256 << 20
"""Of a child: a result and a response of the largest size, and what goes with them."""
NURSERY_CODE: Final = "import sys; sys.path[:] = {!r}; from reenact.runtime.effects.forkserver import serve; serve({})"


class ForkServerClient:
    """The way to this process's fork server. Usable from any thread and any loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def new_child(self) -> tuple[socket.socket, socket.socket]:
        """(the line to a new child, the control of it): it is killed when nothing more can be said over the control."""
        line, theirs = socket.socketpair()
        control, their_control = socket.socketpair()
        with theirs, their_control, open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # it has no folder
            outputs = [number if is_open(number) else nowhere.fileno() for number in (1, 2)]
            descriptors = [theirs.fileno(), their_control.fileno(), *outputs]
            with self._lock:
                try:
                    socket.send_fds(self._opened(), [b"n"], descriptors)
                except ConnectionError:  # it was killed
                    self._shut()
                    socket.send_fds(self._opened(), [b"n"], descriptors)
        return line, control

    def _opened(self) -> socket.socket:
        if self._line is None:
            self._line, theirs = socket.socketpair()
            self._line.settimeout(END_LIMIT_S)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and our own code
                    [sys.executable, *interpreter_flags(), "-c", NURSERY_CODE.format(sys.path, theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for us
                )
        return self._line

    def close(self) -> None:
        """End the fork server and all that it has forked."""
        with self._lock:
            self._shut()

    def _shut(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)
        self._line = self._process = None

    def forget(self) -> None:
        """In a forked child, which gets a fork server of its own when it needs one."""
        self._lock = threading.Lock()
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.returncode = 0  # it is not ours to wait for
        self._line = self._process = None


FORK_SERVER = ForkServerClient()
os.register_at_fork(after_in_child=FORK_SERVER.forget)
atexit.register(FORK_SERVER.close)


def interpreter_flags() -> list[str]:
    """Those that this interpreter was started with, as `multiprocessing` hands them on."""
    given: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    return given


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def call_in_process(skill: Skill, ctx: SkillContext, parameters: Mapping[str, object], limit_s: float) -> object:
    """The skill's output; raises TimeoutError after killing it, ChildFailure when it failed, ChildDied when it died."""
    request = encoded_request(skill, ctx, parameters)
    line, control = FORK_SERVER.new_child()
    try:
        answer = await converse(line, request, ctx, limit_s)
    finally:
        code = await ended(control)
    if not isinstance(answer, Answer):
        died = ChildDied if answer else RuntimeError  # one that had not begun has done nothing
        raise died(f"the skill's process ended without an answer{told(code)}")
    for name, value in answer.report.items():
        setattr(ctx.report, name, value)
    if answer.facts is not None:
        raise ChildFailure(answer.message, answer.facts, answer.details, unsure=answer.unsure)
    return answer.output


def encoded_request(skill: Skill, ctx: SkillContext, parameters: Mapping[str, object]) -> bytes:
    request = Request(
        home=home_of(skill),
        context=portable(ctx),
        parameters=dict(parameters),
        environ=list(os.environb.items()),
        folder=os.getcwd(),  # noqa: PTH109  # a text is what is sent
        path=sys.path,
    )
    return message(b"r", msgspec.msgpack.encode(request))


async def converse(line: socket.socket, request: bytes, ctx: SkillContext, limit_s: float) -> Answer | bool:
    """The child's answer; where it ended without one, whether it had begun."""
    has_begun = False
    reader, writer = await asyncio.open_unix_connection(sock=line, limit=CHUNK)
    try:
        writer.write(request)
        await begun(reader)
        has_begun = True
        async with asyncio.timeout(limit_s):
            while True:
                kind, body = await next_message(reader)
                if kind == ANSWER:
                    return msgspec.msgpack.decode(body, type=Answer)
                if kind == PROGRESS:
                    ctx.progress(body.decode())
    except (asyncio.IncompleteReadError, ConnectionError):
        return has_begun
    finally:
        writer.transport.abort()


async def begun(reader: asyncio.StreamReader) -> None:
    try:
        async with asyncio.timeout(START_LIMIT_S):
            await next_message(reader)
    except TimeoutError:
        raise RuntimeError(f"the skill's module was not imported within {START_LIMIT_S:.0f} s") from None


async def next_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, size = HEAD.unpack(await reader.readexactly(HEAD.size))
    if size > LARGEST_MESSAGE:
        raise ConnectionError(f"a message of {size} bytes")
    return kind, await reader.readexactly(size)


async def ended(control: socket.socket) -> int | None:
    """Have the child killed, and wait until it is gone; its exit code, where somebody could tell it."""
    said = b""
    with control:
        control.setblocking(False)  # noqa: FBT003  # the socket's own interface
        with suppress(OSError):
            control.shutdown(socket.SHUT_WR)  # at once, whatever comes of the waiting
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(END_LIMIT_S):
                while chunk := await loop.sock_recv(control, 64):
                    said += chunk
    numbers = [number for (number,) in NUMBER.iter_unpack(said)]
    if len(numbers) == 1:  # nobody said how it ended: the fork server itself was killed
        end(numbers[0])
    return numbers[1] if len(numbers) == 2 else None


def told(code: int | None) -> str:
    if code is None:
        return ""
    return f" (signal {-code})" if code < 0 else f" (exit code {code})"


build(Answer)
