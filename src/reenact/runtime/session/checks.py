"""Commands that check a session's work."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress

from reenact.errors import Diverged
from reenact.values.difference import first_difference

TIMED_OUT = 124
NOT_FOUND = 127


async def run_commands(commands: list[str], context: Mapping[str, object], timeout_s: float) -> list[int]:
    """Exit codes, in order; 124 for a time-out, 127 for a command that is not there. No shell reads them."""
    workspace = context.get("workspace")
    folder = workspace if isinstance(workspace, str) else None
    return [await run_command(command, folder, timeout_s) for command in commands]


def recorded_codes(told: Mapping[str, object], commands: list[str]) -> list[int]:
    """The exit codes that the same commands had before; Diverged where others were run here."""
    if told.get("commands") != commands:
        difference = first_difference(told.get("commands"), commands)
        raise Diverged(
            f"verify is recorded for other commands: {difference}. Nothing was run",
            kind="other_arguments",
            lane=str(told.get("lane")),
            recorded={"commands": told.get("commands")},
            asked={"commands": commands},
            pointer=None if difference is None else difference.pointer,
        )
    codes = told.get("exit_codes")
    assert isinstance(codes, list)
    return codes


async def run_command(command: str, folder: str | None, timeout_s: float) -> int:
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            cwd=folder,
            start_new_session=True,  # a group of its own, which can be ended whole
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except (OSError, ValueError):
        return NOT_FOUND
    try:
        async with asyncio.timeout(timeout_s):
            return await process.wait()
    except TimeoutError:
        return TIMED_OUT
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Whoever is left of a command that did not end by itself is killed, with all that it started in its group."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
