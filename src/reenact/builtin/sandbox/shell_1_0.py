"""`shell@1.0.0`: without limits to set. Kept for plans that pin it and runs that are open; its sandbox is today's."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from reenact.builtin.sandbox.running import DEFAULT_LIMITS
from reenact.builtin.shell import ShellResult, run_command
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill


@skill(
    "shell",
    version="1.0.0",
    tool_class="write",
    high_risk=True,
    in_doubt="hold",
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
    return await run_command(ctx, argv, stdin, env, timeout_ms, max_bytes, DEFAULT_LIMITS, check=check)
