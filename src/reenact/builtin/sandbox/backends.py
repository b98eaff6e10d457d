"""Which sandbox this system has for commands, and what it enforces, item by item."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from reenact.builtin.sandbox import landlock, seccomp

Confine = Literal["required", "best-effort", "off"]

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROBE_SECONDS = 20


@dataclass(frozen=True)
class Backend:
    """`missing` names what this one cannot enforce here, with what to do; it is None where it enforces everything."""

    name: Literal["bubblewrap", "landlock", "none"]
    says: str
    missing: str | None = None
    bubblewrap: str | None = None
    namespaces: Literal["needed", "wanted", "unwanted"] = "wanted"
    seccomp: bool = True


@cache
def found() -> Backend:
    """The best that there is. Asked once: bubblewrap is started to see whether it works."""
    if sys.platform != "linux":
        return Backend("none", "no sandbox is known for this system", missing="a sandbox, which needs Linux")
    known = os.uname().machine in seccomp.MACHINES
    if not known:
        return _without_seccomp()
    return bubblewrap() or with_landlock()


@cache
def bubblewrap() -> Backend | None:
    """bubblewrap, where it is installed and may make its namespaces."""
    path = shutil.which("bwrap", path=PATH)
    if path is None:
        return None
    probe = [path, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    try:
        _output([*probe, "true"])
        version = _output([path, "--version"])
    except (OSError, subprocess.SubprocessError):
        return None
    return Backend("bubblewrap", f"{version}, seccomp", bubblewrap=path)


def _output(command: list[str]) -> str:
    ran = subprocess.run(command, check=True, timeout=_PROBE_SECONDS, capture_output=True, env={"PATH": PATH})  # noqa: S603
    return ran.stdout.decode(errors="replace").strip()


def with_landlock() -> Backend:
    """Landlock and seccomp, in namespaces where the kernel gives them; before Linux 6.12 those are needed."""
    version = landlock.version()
    if version == 0:
        return Backend(
            "none", "nothing here confines a command", missing="bubblewrap, or a kernel with Landlock (Linux 5.13)"
        )
    says = f"Landlock {version}, seccomp"
    if version < landlock.SCOPES_SIGNALS:
        return Backend("landlock", f"{says}, namespaces", namespaces="needed")
    return Backend("landlock", f"{says}, namespaces where the kernel gives them")


def _without_seccomp() -> Backend:
    machine = os.uname().machine
    missing = f"a filter of system calls for {machine} (there is one for {' and '.join(seccomp.MACHINES)})"
    if landlock.version() == 0:
        return Backend("none", "nothing here confines a command", missing=missing)
    return Backend("landlock", f"Landlock {landlock.version()} alone", missing=missing, seccomp=False)
