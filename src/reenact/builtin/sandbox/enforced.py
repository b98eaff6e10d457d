"""What the sandbox enforces on this system, item by item, for `reenact doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from reenact.builtin.sandbox import backends
from reenact.builtin.sandbox.running import DEFAULT_LIMITS, Job, run
from reenact.errors import SkillError

_TRIAL_SECONDS = 20.0
_INSTALL: Final = "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`)"

ENFORCED: Final = {
    "files": "outside the workspace only the system's programs and what is named readable can be read; nothing there "
    "can be changed, neither content nor names, modes, owners, times or attributes",
    "network": "none: no TCP, UDP, MPTCP, netlink or raw sockets, no io_uring",
    "sockets": "no Unix socket outside the workspace is reached, and no abstract one",
    "processes": "no other process is signalled, traced, read or slowed down",
    "end": "nothing outlives the call, its time limit or its host",
    "limits": "on memory, processes and threads, the size of a file, core dumps and time",
    "system": "no mounts, namespaces, modules, keys, BPF, or calls of another architecture",
}
"""What "required" stands for."""


class Item(NamedTuple):
    """One thing that is, or is not, enforced here; `subject` is None for the whole."""

    subject: str | None
    is_enforced: bool
    says: str
    do: str | None = None


def look() -> Iterator[Item]:
    """What is enforced on this system, for whoever asks."""
    backend = backends.found()
    if backend.missing is not None:
        says = f"commands are refused: {backend.says}, and this system lacks {backend.missing}"
        yield Item(None, is_enforced=False, says=says, do=f'{_INSTALL}, or let the host say confine = "best-effort"')
        return
    in_namespaces = backend.name == "bubblewrap" or gives_namespaces()
    if backend.namespaces == "needed" and not in_namespaces:
        says = f"commands are refused: {backend.says} are needed, and this system gives no namespaces"
        yield Item(None, is_enforced=False, says=says, do=f'{_INSTALL}, or let the host say confine = "best-effort"')
        return
    yield Item(None, is_enforced=True, says=f"commands are confined by {backend.name}: {backend.says}")
    for subject, says in ENFORCED.items():
        yield Item(subject, is_enforced=True, says=says)
    if not in_namespaces:
        says = "there are no namespaces: modes, owners, times and attributes cannot be changed in the workspace either"
        yield Item("files", is_enforced=False, says=says, do=_INSTALL)


@cache
def gives_namespaces() -> bool:
    """Whether this user may have namespaces here: tried with the launcher itself."""
    backend = replace(backends.with_landlock(), namespaces="needed")

    async def attempt() -> bool:
        try:
            await run(Job(["true"], Path("/"), backend, {}, DEFAULT_LIMITS), b"", _TRIAL_SECONDS, 1000)
        except (SkillError, TimeoutError):
            return False
        return True

    return backend.name == "landlock" and asyncio.run(attempt())
