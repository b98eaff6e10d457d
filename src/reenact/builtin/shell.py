"""`shell`: one command in the workspace, off unless the plan allows it, in a sandbox."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from reenact.builtin.limiter import limited
from reenact.builtin.sandbox import backends, environment
from reenact.builtin.sandbox.running import DEFAULT_LIMITS, Job, Limits, run
from reenact.builtin.workspace import real_folder, refuse_outside, workspace_of
from reenact.errors import SkillError
from reenact.policy.lists import lists
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.skills.services import FOLDERS_SERVICE, STORE_FILES_SERVICE, Folders, StoreFiles

_FIELDS = frozenset({"allow", "workspace", "commands", "confine", "readable"})
_CONFINEMENTS = ("require", "best-effort", "off")


class ShellResult(TypedDict):
    """Outputs are texts where they are UTF-8, base64 else."""

    exit_code: int
    stdout: str
    stderr: str
    encoding: Literal["text", "base64"]


@skill(
    "shell",
    version="1.1.0",
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
        "ERR_STORAGE_QUOTA_EXCEEDED", "ERR_QUOTA_EXCEEDED",
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
    memory_mb: Annotated[int, Meta(ge=16, le=65_536)] = DEFAULT_LIMITS.memory_mb,
    processes: Annotated[int, Meta(ge=1, le=8192)] = DEFAULT_LIMITS.processes,
    file_mb: Annotated[int, Meta(ge=1, le=65_536)] = DEFAULT_LIMITS.file_mb,
    check: bool = True,
) -> ShellResult:
    """Runs one command, given as a list of arguments, in the plan's workspace.

    It sees none of this process's environment, can change nothing outside the workspace, reads little else, has no
    network, and nothing of it outlives the call. An exit code other than 0 is a failure unless `check` is false; a
    signal counts as 128 and its number. Nothing interprets the arguments: a pipeline needs `["sh", "-c", "…"]`.
    """
    limits = Limits(memory_mb, processes, file_mb)
    return await run_command(ctx, argv, stdin, env, timeout_ms, max_bytes, limits, check=check)


async def run_command(
    ctx: SkillContext,
    argv: list[str],
    stdin: str,
    env: Mapping[str, str],
    timeout_ms: int | None,
    max_bytes: int,
    limits: Limits,
    *,
    check: bool,
) -> ShellResult:
    """What every version of the skill does."""
    rules = _rules(ctx)
    folder = _folder(ctx, rules)
    _check_command(argv, env, rules)
    backend = await _backend(rules)
    readable = _readable(ctx, rules)
    hidden = _hidden(ctx.services.get(STORE_FILES_SERVICE), folder, readable) if backend else []
    job = Job(argv, folder, backend, env, limits, readable, hidden, _ways(folder, hidden))
    seconds = max(0.001, min((timeout_ms or ctx.timeout_ms) / 1000, ctx.remaining_seconds))
    with limited(ctx, "shell"):
        ctx.side_effect("process_run", argv[0])
        code, out, err = await run(job, stdin.encode(), seconds, max_bytes)
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
    unknown = set(rules) - _FIELDS
    if unknown:
        raise SkillError.of("ERR_VALIDATION_FAILED", f"context.shell: no field {min(unknown)!r}")
    if rules.get("confine", "require") not in _CONFINEMENTS:
        raise SkillError.of("ERR_VALIDATION_FAILED", "context.shell.confine is require, best-effort or off")
    return rules


async def _backend(rules: Mapping[str, Any]) -> backends.Backend | None:
    """What the command is confined with; None where it is not to be."""
    confine = rules.get("confine", "require")
    if confine == "off":
        return None
    found = await asyncio.to_thread(backends.found)
    if confine == "require" and found.missing is not None:
        raise SkillError.of(
            "ERR_SKILL_DISABLED",
            f"this system cannot confine a command: it lacks {found.missing}; install bubblewrap, or let the host say "
            'confine = "best-effort"',
        )
    return found if sys.platform == "linux" else None


def _folder(ctx: SkillContext, rules: Mapping[str, Any]) -> Path:
    named = rules.get("workspace")
    if named is None:
        return workspace_of(ctx, "shell")
    return real_folder(ctx, "context.shell.workspace", str(named))


def _readable(ctx: SkillContext, rules: Mapping[str, Any]) -> list[str]:
    own: Folders | None = ctx.services.get(FOLDERS_SERVICE)
    paths = [Path(path).resolve() for path in rules.get("readable", ())]
    for path in paths:
        refuse_outside("context.shell.readable", path, None if own is None else own.readable)
    return [str(path) for path in paths]


def _check_command(argv: list[str], env: Mapping[str, str], rules: Mapping[str, Any]) -> None:
    commands = rules.get("commands")
    if commands is not None and not lists(commands, argv[0]):
        raise SkillError.of(
            "ERR_PERMISSION_DENIED", "argv: the plan's context.shell.commands does not name this command"
        )
    if any("\0" in text for text in (*argv, *env, *env.values())) or any("=" in name or not name for name in env):
        raise SkillError.of("ERR_VALIDATION_FAILED", "argv or env: no process can be given this")
    refused = environment.refused(env)
    if refused is not None:
        raise SkillError.of(
            "ERR_VALIDATION_FAILED",
            f"env: {refused} makes programs load or run something else, and is not given to a command; one that needs "
            f'it sets it itself: ["env", "{refused}=…", …]',
        )


def _hidden(own: StoreFiles | None, workspace: Path, readable: list[str]) -> list[str]:
    """The folders that hold the store's files, where the command could come to them."""
    folders: set[str] = set()
    for file in own.paths() if own is not None else ():
        for root in (workspace, *map(Path, readable)):
            if not file.is_relative_to(root):
                continue
            if root in (file, file.parent) or workspace.is_relative_to(file.parent):
                raise SkillError.of(
                    "ERR_PERMISSION_DENIED",
                    f"a command in {root} would come to {file.name}, which is the store's or the host's own; keep that "
                    "in a folder of its own, or let commands work in another one",
                )
            folders.add(str(file.parent))
    return sorted(folder for folder in folders if Path(folder).is_dir())


def _ways(workspace: Path, hidden: list[str]) -> list[str]:
    """The folders strictly between the workspace and what is hidden in it, the outer ones first."""
    around = {way for folder in hidden for way in Path(folder).parents if way.is_relative_to(workspace)}
    return sorted(str(way) for way in around - {workspace})


def _result(code: int, out: bytes, err: bytes) -> ShellResult:
    try:
        return ShellResult(exit_code=code, stdout=out.decode(), stderr=err.decode(), encoding="text")
    except UnicodeDecodeError:
        texts = [base64.b64encode(data).decode("ascii") for data in (out, err)]
        return ShellResult(exit_code=code, stdout=texts[0], stderr=texts[1], encoding="base64")
