"""Commands that check a session's work."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping

TIMED_OUT = 124
NOT_FOUND = 127


async def run_commands(commands: list[str], context: Mapping[str, object], timeout_s: float) -> list[int]:
    """Exit codes, in order; 124 for a time-out, 127 for a command that is not there. No shell reads them."""
    workspace = context.get("workspace")
    folder = workspace if isinstance(workspace, str) else None
    return [await run_command(command, folder, timeout_s) for command in commands]


async def run_command(command: str, folder: str | None, timeout_s: float) -> int:
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except (OSError, ValueError):
        return NOT_FOUND
    try:
        return await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        process.kill()
        await process.wait()
        return TIMED_OUT
