"""`shell`: one command in the workspace, off unless the plan allows it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from reenact.builtin import confine
from reenact.builtin.limiter import limited
from reenact.builtin.workspace import workspace_of
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.values.canonical import canonicalize

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_READABLE = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/ssl",
    "/dev/zero", "/dev/random", "/dev/urandom",
)  # fmt: skip
_WRITABLE_DEVICES = ("/dev/null",)
_KILL_GRACE_SECONDS = 5.0


class ShellResult(TypedDict):
    """Outputs are texts where they are UTF-8, base64 else."""

    exit_code: int
    stdout: str
    stderr: str
    encoding: Literal["text", "base64"]


class _TooMuch(Exception):
    pass


@skill(
    "shell",
    version="1.0.0",
    tool_class="write",
    high_risk=True,
    in_doubt="hold",  # nobody knows what a command did that gave no answer
    reads=["workspace"],
    writes=["workspace"],
    side_effects=["process_run"],
    stable_fields=["exit_code"],
    permissions=["shell", "workspace"],
    failure_modes=[
        "ERR_SKILL_DISABLED", "ERR_PERMISSION_DENIED", "ERR_VALIDATION_FAILED", "ERR_TIMEOUT", "ERR_UNKNOWN",
        "ERR_STORAGE_QUOTA_EXCEEDED",
    ],
    tags=["process"],
)  # fmt: skip
async def shell(
    ctx: SkillContext,
    argv: Annotated[list[str], Meta(min_length=1, max_length=1000)],
    *,
    stdin: str = "",
    env: dict[str, str] = {},  # noqa: B006 - never changed, and shown in the schema
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None,
    max_bytes: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_000_000,
    check: bool = True,
) -> ShellResult:
    """Runs one command, given as a list of arguments, in the plan's workspace.

    It sees none of this process's environment, can change nothing outside the workspace and reads little else. An
    exit code other than 0 is a failure unless `check` is false. Nothing interprets the arguments: a pipeline needs
    `["sh", "-c", "…"]`.
    """
    rules = _rules(ctx)
    folder = _folder(ctx, rules)
    _check_command(argv, env, rules)
    seconds = max(0.001, min((timeout_ms or ctx.timeout_ms) / 1000, ctx.remaining_seconds))
    with limited(ctx, "shell"):
        ctx.side_effect("process_run", argv[0])
        code, out, err = await _run(_Job(argv, folder, rules, env), stdin.encode(), seconds, max_bytes)
    result = _result(code, out, err)
    if check and code != 0:
        ctx.response(result)
        raise SkillError.of("ERR_UNKNOWN", f"the command ended with exit code {code}", exit_code=code)
    return result


def _rules(ctx: SkillContext) -> Mapping[str, Any]:
    rules = ctx.context.get("shell")
    if not isinstance(rules, Mapping) or rules.get("allow") is not True:
        raise SkillError.of(
            "ERR_SKILL_DISABLED", 'shell is off; a plan switches it on with context.shell = {"allow": true}'
        )
    unknown = set(rules) - {"allow", "workspace", "commands", "confine", "readable"}
    if unknown:
        raise SkillError.of("ERR_VALIDATION_FAILED", f"context.shell: no field {min(unknown)!r}")
    if rules.get("confine", "require") not in {"require", "off"}:
        raise SkillError.of("ERR_VALIDATION_FAILED", "context.shell.confine is require or off")
    if rules.get("confine", "require") == "require" and not confine.landlock_version():
        raise SkillError.of(
            "ERR_SKILL_DISABLED",
            'this system cannot confine a command; set context.shell.confine to "off" to run it unconfined',
        )
    return rules


def _folder(ctx: SkillContext, rules: Mapping[str, Any]) -> Path:
    named = rules.get("workspace")
    if named is None:
        return workspace_of(ctx, "shell")
    folder = Path(str(named)).resolve()
    if not folder.is_dir():
        raise SkillError.of("ERR_VALIDATION_FAILED", "context.shell.workspace: there is no such folder")
    return folder


def _check_command(argv: list[str], env: Mapping[str, str], rules: Mapping[str, Any]) -> None:
    commands = rules.get("commands")
    if commands is not None and argv[0] not in commands:
        raise SkillError.of(
            "ERR_PERMISSION_DENIED", "argv: the plan's context.shell.commands does not name this command"
        )
    if any("\0" in text for text in (*argv, *env, *env.values())) or any("=" in name or not name for name in env):
        raise SkillError.of("ERR_VALIDATION_FAILED", "argv or env: no process can be given this")


@dataclass(frozen=True)
class _Job:
    argv: list[str]
    folder: Path
    rules: Mapping[str, Any]
    env: Mapping[str, str]

    @property
    def confined(self) -> bool:
        return bool(self.rules.get("confine", "require") == "require")

    def command(self, report: int) -> list[str]:
        found = shutil.which(self.argv[0], path=_PATH) if "/" not in self.argv[0] else self.argv[0]
        if found is None:
            raise FileNotFoundError
        if not self.confined:
            return [found, *self.argv[1:]]
        config = {
            "write": [str(self.folder), *_WRITABLE_DEVICES],
            "read": [*_READABLE, *(str(path) for path in self.rules.get("readable", ()))],
            "report": report,
        }
        return [sys.executable, "-I", "-S", confine.__file__, canonicalize(config).decode(), found, *self.argv[1:]]


async def _run(job: _Job, stdin: bytes, seconds: float, max_bytes: int) -> tuple[int, bytes, bytes]:
    told, tell = os.pipe()
    try:
        process = await _start(job, tell)
    except OSError as error:
        os.close(told)
        raise _cannot_start() from error
    finally:
        os.close(tell)
    try:
        async with asyncio.timeout(seconds):
            out, err = await _communicate(process, stdin, max_bytes)
            code = await process.wait()
    except _TooMuch:
        raise SkillError.of(
            "ERR_STORAGE_QUOTA_EXCEEDED", f"the command printed more than {max_bytes} bytes; raise max_bytes"
        ) from None
    finally:
        await _end(process)
        failure = os.read(told, 100)
        os.close(told)
    if failure:
        raise _cannot_start()
    return code, out, err


async def _start(job: _Job, report: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *job.command(report),
        cwd=job.folder,
        env={"PATH": _PATH, "HOME": str(job.folder), "TMPDIR": str(job.folder), "LANG": "C.UTF-8", **job.env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        pass_fds=(report,) if job.confined else (),
    )


def _cannot_start() -> SkillError:
    return SkillError.of("ERR_VALIDATION_FAILED", "argv: there is no such command, or it may not be run from here")


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


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the whole group: a command must not leave children behind that go on writing."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    assert process.stderr is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILL_GRACE_SECONDS):
            # What is left in the pipes is read first: the end of a process is only told after that of its pipes.
            await asyncio.gather(process.stdout.read(), process.stderr.read())
            await process.wait()


def _result(code: int, out: bytes, err: bytes) -> ShellResult:
    try:
        return ShellResult(exit_code=code, stdout=out.decode(), stderr=err.decode(), encoding="text")
    except UnicodeDecodeError:
        texts = [base64.b64encode(data).decode("ascii") for data in (out, err)]
        return ShellResult(exit_code=code, stdout=texts[0], stderr=texts[1], encoding="base64")
