"""Runs what a hostile command tries through the real `shell` of a real Runtime, once unconfined and in each sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reenact import Runtime, StructuredOutcome
from reenact.builtin.sandbox import backends, enforced, landlock, seccomp

INSIDE = Path(__file__).with_name("inside.py")
PYTHON = os.path.realpath(sys.executable)
UNCONFINED = "unconfined"
NAMES = ["bubblewrap", "landlock in namespaces", "landlock alone"]
"""Of the sandboxes; those that this system has are probed."""


def backend(name: str) -> backends.Backend | None:
    """The sandbox of that name, where this system has it."""
    if name == "bubblewrap":
        return backends.bubblewrap()
    if sys.platform != "linux" or os.uname().machine not in seccomp.MACHINES or not landlock.version():
        return None
    own = backends.with_landlock()
    if name == "landlock alone":
        return replace(own, namespaces="unwanted") if landlock.version() >= landlock.SCOPES_SIGNALS else None
    return replace(own, namespaces="needed") if enforced.gives_namespaces() else None


FOUND = [name for name in NAMES if backend(name) is not None]
PROBED = FOUND if os.environ.get("SANDBOXES") == "all" else FOUND[:1]
"""What a probe is tried in: all of them in `make torture`, else the one that `shell` would choose. What a command
reaches (`test_escapes.py`) and reads (`test_reads_the_store_from_a_command.py`) is always tried in all."""


def run(
    sandbox: str,
    folder: Path,
    argv: list[str],
    *,
    readable: tuple[str, ...] = (),
    store: Path | str = "sqlite://:memory:",
    **more: Any,
) -> StructuredOutcome:
    """One call of `shell` in a session of its own."""
    confine = "off" if sandbox == UNCONFINED else "require"
    rules = {"allow": True, "confine": confine, "readable": [*readable, sys.base_prefix]}
    chosen = None if sandbox == UNCONFINED else backend(sandbox)
    with mock.patch.object(backends, "found", return_value=chosen):
        runtime = Runtime(store)
        try:
            with runtime.session(goal="probe", context={"workspace": str(folder), "shell": rules}) as session:
                return session.call("shell", {"argv": argv, "check": False, **more})
        finally:
            runtime.close()


def python(sandbox: str, folder: Path, code: str, *arguments: str, **more: Any) -> StructuredOutcome:
    return run(sandbox, folder, [PYTHON, "-I", "-S", "-c", code, *arguments], **more)


# -- the world outside -------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A workspace, and beside it what a command must not come to."""

    workspace: Path
    targets: dict[str, Any]

    def seen(self) -> dict[str, object]:
        """Everything outside that a command could have changed."""
        found: dict[str, object] = {}
        for name in ("outside", "readable"):
            for path in [Path(self.targets[name]), *sorted(Path(self.targets[name]).iterdir())]:
                status = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                xattrs = os.listxattr(path, follow_symlinks=False)
                found[str(path)] = (status.st_mode, status.st_uid, status.st_mtime_ns, status.st_nlink, content, xattrs)
        for name in ("temporary", "shared"):
            found[name] = Path(self.targets[name]).exists()
        return found


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    mark = uuid.uuid4().hex[:12]
    workspace, outside, readable = folder / "work", folder / "outside", folder / "readable"
    for made in (workspace, outside, readable):
        made.mkdir(parents=True)
    files = "secret longer removed movable modes times owners xattrs flags open newest"
    for name in files.split():
        for place in (outside, readable):
            (place / f"{name}.txt").write_text("secret", encoding="utf-8")
    targets: dict[str, Any] = {
        "outside": str(outside),
        "readable": str(readable),
        "abstract": f"reenact-{mark}",
        "host": os.getpid(),
        "temporary": f"/tmp/reenact-probe-{mark}",
        "shared": f"/dev/shm/reenact-probe-{mark}",
    }
    with contextlib.ExitStack() as stack:
        tcp = listening(stack, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = listening(stack, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        targets["tcp"], targets["udp"] = tcp.getsockname()[1], udp.getsockname()[1]
        with contextlib.chdir(outside):  # a socket's address has to be short
            listening(stack, socket.AF_UNIX, socket.SOCK_STREAM, "stream.sock")
            listening(stack, socket.AF_UNIX, socket.SOCK_DGRAM, "datagram.sock")
        listening(stack, socket.AF_UNIX, socket.SOCK_STREAM, "\0" + targets["abstract"])
        command, env = [PYTHON, "-I", "-S", "-c", VICTIM], {"PLANTED_SECRET": mark}
        victim = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, env=env))
        stack.callback(victim.kill)
        assert victim.stdout is not None
        targets["victim"], targets["victim_address"] = victim.pid, int(victim.stdout.readline())
        yield World(workspace, targets)
        for name in ("temporary", "shared"):
            Path(targets[name]).unlink(missing_ok=True)


VICTIM = """
import ctypes, signal, time
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
held = ctypes.create_string_buffer(b"a secret")
print(ctypes.addressof(held), flush=True)
time.sleep(600)
"""


def listening(stack: contextlib.ExitStack, family: int, kind: int, address: Any) -> socket.socket:
    listener = stack.enter_context(socket.socket(family, kind))
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen(64)
    return listener


# -- groups of probes --------------------------------------------------------------------------------------------------


def names(group: str) -> list[str]:
    lines = INSIDE.read_text(encoding="utf-8").splitlines()
    return [line.split("(")[0][4:] for line in lines if line.startswith(f"def {group}_")]


@dataclass
class Probed:
    results: dict[str, str]
    errors: str
    changed: list[str]


class Group:
    """All probes of a group in one command, once in each sandbox; the control is the same command, unconfined."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._probed: dict[str, Probed] = {}

    def check(self, sandbox: str, probe: str) -> None:
        control = self.probed(UNCONFINED)
        if control.results[probe] == "absent":
            pytest.skip(f"this kernel has nothing to attack with {probe}")
        if control.results[probe] == "refused" and os.geteuid() != 0:
            pytest.skip(f"only root could do it: {probe}")
        assert control.results[probe] == "escaped", f"the control must succeed\n{control.errors}"
        if sandbox not in FOUND:
            pytest.skip(f"this system has no {sandbox}")
        confined = self.probed(sandbox)
        assert confined.results[probe] != "escaped", confined.errors
        assert confined.changed == []

    def probed(self, sandbox: str) -> Probed:
        if sandbox not in self._probed:
            self._probed[sandbox] = self._probe(sandbox)
        return self._probed[sandbox]

    def _probe(self, sandbox: str) -> Probed:
        with world(self._folder / sandbox.replace(" ", "-")) as made:
            shutil.copy(INSIDE, made.workspace)
            before = made.seen()
            argv = [PYTHON, "-I", "-S", INSIDE.name, self.name, json.dumps(made.targets)]
            outcome = run(sandbox, made.workspace, argv, readable=(made.targets["readable"],))
            after = made.seen()
        assert outcome.ok, outcome
        output: Any = outcome.output
        assert output["exit_code"] == 0, output
        changed = sorted(place for place in {*before, *after} if before.get(place) != after.get(place))
        return Probed(json.loads(output["stdout"].splitlines()[-1]), output["stderr"], changed)


# -- processes that should be gone -------------------------------------------------------------------------------------


def marked(mark: str) -> list[int]:
    """Processes, in whatever namespace, that carry the mark in their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in place.read_bytes():
                found.append(int(place.parent.name))
    return found
