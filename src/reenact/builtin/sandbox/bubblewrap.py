"""bubblewrap: the arguments with which it confines a command. See bwrap(1)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def arguments(job: Mapping[str, Any], seccomp: int, status: int) -> list[str]:
    """What `bwrap` is told before the command; `seccomp` and `status` are descriptors that it inherits.

    Nothing of the system is there but what is bound: its own processes, devices and (no) network, and a root that
    nobody can write to.
    """
    given = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    for name, value in job["env"].items():
        given += ["--setenv", name, value]
    for path in job["read"]:
        given += ["--ro-bind-try", path, path]
    # Read-only also /proc: to root its settings of the kernel are files of its own, which need no capability.
    given += ["--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    workspace = job["workspace"]
    given += ["--bind", workspace, workspace]
    for folder in job["ways"]:
        given += ["--bind", folder, folder]
    for folder in job["hidden"]:
        given += ["--tmpfs", folder, "--remount-ro", folder]
    given += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", workspace]
    return [*given, "--seccomp", str(seccomp), "--json-status-fd", str(status)]


def exit_code(status: bytes) -> int | None:
    """What it says of the command's end; None where the command was never started."""
    _, found, rest = status.partition(b'"exit-code":')
    digits = rest.strip().split()[0].rstrip(b",}") if found else b""
    return int(digits) if digits.isdigit() else None
