"""Commands that check a session's work."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from reenact.builtin.sandbox.backends import Backend
from reenact.builtin.sandbox.running import Job, Limits, read_report, start
from reenact.errors import Diverged
from reenact.values.difference import first_difference
from reenact.values.digest import sha256_hex

TIMED_OUT: Final = 124
NOT_FOUND: Final = 127
END_S: Final = 5.0
KEPT_BYTES: Final = 1 << 20
SHOWN: Final = 5000
"""Characters at each end of what was printed, where it is more than twice that."""
AS_IT_IS: Final = Backend("none", "as it is") if sys.platform == "linux" else None
"""The launcher of the sandbox: it ends with its host, and ends all that it has started."""
UNLIMITED: Final = Limits(memory_mb=1 << 40, processes=1 << 40, file_mb=1 << 40)


class Checked(NamedTuple):
    """What one command came to."""

    code: int
    out: Ends
    err: Ends


async def run_commands(commands: list[str], context: Mapping[str, object], timeout_s: float) -> list[Checked]:
    """In order; code 124 for a time-out, 127 for a command that is not there. No shell reads them."""
    workspace = context.get("workspace")
    folder = workspace if isinstance(workspace, str) else None
    return [await run_command(command, folder, timeout_s) for command in commands]


class Ends:
    """What a command prints, in bounded memory: its first and its last bytes, and how many there were."""

    def __init__(self) -> None:
        self.first, self.last, self.size = bytearray(), bytearray(), 0

    def add(self, part: bytes) -> None:
        self.size += len(part)
        room = KEPT_BYTES - len(self.first)
        self.first += part[:room]
        self.last += part[max(0, room) :]
        if len(self.last) > 2 * KEPT_BYTES:
            del self.last[:-KEPT_BYTES]

    def shown(self, redact: Callable[[str], str]) -> dict[str, object]:
        """Without secrets, then cut; the hash is over all that is left without them, and not over what was printed.

        Of more than twice the kept bytes, over the first and the last of them.
        """
        last = bytes(self.last[-KEPT_BYTES:])
        parts = [bytes(self.first), last] if self.size > 2 * KEPT_BYTES else [bytes(self.first) + last]
        texts = [redact(part.decode("utf-8", "replace")) for part in parts]
        whole = "".join(texts)
        cut = whole if len(whole) <= 2 * SHOWN else f"{whole[:SHOWN]}...{whole[-SHOWN:]}"
        return {"bytes": self.size, "hash": f"sha256:{sha256_hex(whole.encode())}", "text": cut}


async def drain(pipe: asyncio.StreamReader | None, into: Ends) -> None:
    while pipe is not None and (part := await pipe.read(1 << 16)):
        into.add(part)


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


class Check(Job):
    """A command as its host would run it: nothing is confined, and nothing of it outlives its host."""

    def executable(self) -> str:
        found = self.argv[0] if "/" in self.argv[0] else shutil.which(self.argv[0])
        if found is None:
            raise FileNotFoundError(self.argv[0])
        return found

    def environment(self) -> dict[str, str]:
        return dict(os.environ)


async def run_command(command: str, folder: str | None, timeout_s: float) -> Checked:
    out, err = Ends(), Ends()
    told, tell = os.pipe()
    os.set_blocking(told, False)  # the system's own interface
    code = NOT_FOUND
    try:
        check = Check(shlex.split(command), Path(folder or Path.cwd()), AS_IT_IS, {}, UNLIMITED)
        process = await start(check, tell, stdin=asyncio.subprocess.DEVNULL)
        reading = asyncio.gather(drain(process.stdout, out), drain(process.stderr, err))
        try:
            async with asyncio.timeout(timeout_s):
                code = await process.wait()
        except TimeoutError:
            code = TIMED_OUT
        finally:
            await end(process)
            await asyncio.wait([reading], timeout=END_S)  # somebody else may hold the pipe
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    except (OSError, ValueError, IndexError):
        code = NOT_FOUND
    finally:
        os.close(tell)
        report = read_report(told)
    return Checked(NOT_FOUND if report else code, out, err)


async def end(process: asyncio.subprocess.Process) -> None:
    """Whoever is left of a command that did not end by itself is ended, with all that it started.

    The launcher is asked first, since only it finds what has left the group.
    """
    for number in (signal.SIGTERM, signal.SIGKILL) if AS_IT_IS is not None else (signal.SIGKILL,):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()
