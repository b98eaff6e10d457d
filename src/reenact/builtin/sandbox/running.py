"""Runs one command through the launcher, feeds it, reads its bounded outputs, and ends it with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from reenact.builtin.sandbox import launch
from reenact.builtin.sandbox.backends import PATH, Backend
from reenact.errors import SkillError

READABLE: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)  # fmt: skip
_READABLE_DEVICES = ("/dev/zero", "/dev/random", "/dev/urandom")
_WRITABLE_DEVICES = ("/dev/null",)
_END_GRACE_SECONDS = 5.0
_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """For all processes of a command together, but `file_mb`, which is for each file."""

    memory_mb: int
    processes: int
    file_mb: int


DEFAULT_LIMITS: Final = Limits(memory_mb=4096, processes=512, file_mb=1024)


@dataclass(frozen=True)
class Job:
    """A command and what it may touch. `hidden` are folders in the workspace that it finds empty, `ways` lead there."""

    argv: list[str]
    folder: Path
    backend: Backend | None
    """None runs it as it is, unconfined and uncounted."""
    env: Mapping[str, str]
    limits: Limits
    readable: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)

    def executable(self) -> str:
        found = shutil.which(self.argv[0], path=PATH) if "/" not in self.argv[0] else self.argv[0]
        if found is None:
            raise cannot_start()
        return found

    def environment(self) -> dict[str, str]:
        folder = str(self.folder)
        fixed = {"PATH": PATH, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
        return {**fixed, **self.env}  # git takes it for an error that it may not read the system's settings

    def packed(self, backend: Backend, report: int) -> bytes:
        """As the launcher reads it: `supervisor` says what is what."""
        return marshal.dumps({
            "backend": backend.name,
            "bubblewrap": backend.bubblewrap,
            "namespaces": backend.namespaces,
            "seccomp": backend.seccomp,
            "workspace": str(self.folder),
            "read": [*READABLE, *(() if backend.name == "bubblewrap" else _READABLE_DEVICES), *self.readable],
            "write": list(_WRITABLE_DEVICES),
            "hidden": self.hidden,
            "ways": self.ways,
            "env": self.environment(),
            "memory": self.limits.memory_mb * _MIB,
            "file_size": self.limits.file_mb * _MIB,
            "processes": self.limits.processes,
            "parent": os.getpid(),
            "report": report,
        })  # fmt: skip


class _TooMuch(Exception):
    pass


async def run(job: Job, stdin: bytes, seconds: float, max_bytes: int) -> tuple[int, bytes, bytes]:
    """Exit code and outputs. What keeps the command from being run, or ends it, is a SkillError or a TimeoutError."""
    told, tell = os.pipe()
    os.set_blocking(told, False)
    try:
        process = await start(job, tell)
    except OSError as error:
        os.close(told)
        raise cannot_start() from error
    finally:
        os.close(tell)
    err = b""
    try:
        async with asyncio.timeout(seconds):
            out, err = await _communicate(process, stdin, max_bytes)
            code = await process.wait()
    except _TooMuch:
        raise SkillError.of(
            "ERR_STORAGE_QUOTA_EXCEEDED", f"the command printed more than {max_bytes} bytes; raise max_bytes"
        ) from None
    finally:
        await _end(process, gently=job.backend is not None)
        report = read_report(told)
    if report:
        raise _failure(report, err, job.limits)
    return (code if code >= 0 else 128 - code), out, err


async def start(job: Job, report: int, stdin: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    """The launcher, or the command itself, its outputs in pipes, in a group of its own."""
    command, pipe = [job.executable(), *job.argv[1:]], asyncio.subprocess.PIPE
    begin = partial(asyncio.create_subprocess_exec, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True)
    if job.backend is None:
        return await begin(*command, cwd=job.folder, env=job.environment())
    with os.fdopen(os.memfd_create("job"), "w+b") as file:
        file.write(job.packed(job.backend, report))
        file.seek(0)
        launcher = [sys.executable, "-I", "-S", launch.__file__, str(file.fileno())]
        return await begin(*launcher, *command, cwd="/", env={}, pass_fds=(report, file.fileno()))


def cannot_start() -> SkillError:
    return SkillError.of("ERR_VALIDATION_FAILED", "argv: there is no such command, or it may not be run from here")


def read_report(told: int) -> str:
    """What the launcher has said, if anything."""
    try:
        return os.read(told, 4096).decode(errors="replace").partition("\n")[0]
    except BlockingIOError:
        return ""
    finally:
        os.close(told)


def _failure(report: str, err: bytes, limits: Limits) -> SkillError:
    """What the launcher told, as what the caller did or what the system lacks."""
    what, _, detail = report.partition(" ")
    if what == "limit":
        most = f"{limits.memory_mb} MiB of memory; raise memory_mb" if detail == "memory" else (
            f"{limits.processes} processes and threads; raise processes"
        )  # fmt: skip
        return SkillError.of("ERR_QUOTA_EXCEEDED", f"the command was ended: it used more than {most}", limit=detail)
    if what == "bubblewrap":
        detail = err.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("bwrap: ")
        what = "start" if detail.startswith("execvp ") else "confine"
    if what == "start":
        return cannot_start()
    return SkillError.of(
        "ERR_SKILL_DISABLED",
        f"the command cannot be confined here ({detail or 'the launcher failed'}); `reenact doctor` says why",
    )


async def _communicate(process: asyncio.subprocess.Process, data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    tasks = [
        asyncio.ensure_future(_drain(process.stdout, max_bytes)),
        asyncio.ensure_future(_drain(process.stderr, max_bytes)),
    ]
    feeding = asyncio.ensure_future(_feed(process.stdin, data))
    try:
        out, err = await asyncio.gather(*tasks)
    finally:
        for task in (*tasks, feeding):
            task.cancel()
        await asyncio.gather(*tasks, feeding, return_exceptions=True)
    return out, err


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()


async def _drain(pipe: asyncio.StreamReader, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await pipe.read(65536):
        size += len(part)
        if size > max_bytes:
            raise _TooMuch
        parts.append(part)
    return b"".join(parts)


async def _end(process: asyncio.subprocess.Process, *, gently: bool) -> None:
    """Ends everything: a command must not leave children behind that go on writing.

    The launcher is asked, since only it finds what has left the group; it has gone when all of that has.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    for number in (signal.SIGTERM, signal.SIGKILL) if gently else (signal.SIGKILL,):
        if process.returncode is not None and gently:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number == signal.SIGTERM:
                process.terminate()
            else:
                os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_GRACE_SECONDS):
                # What is left in the pipes is read first: the end of a process is only told after that of its pipes.
                await asyncio.gather(process.stdout.read(), process.stderr.read())
                await process.wait()
                return
