"""Ends the servers of a test run that ended without doing so itself: killed, or out of memory.

Started as a script of its own, with nothing but the standard library. It waits for the end of its standard input, which
comes with the death of the process that holds the other end, stops every server below a folder, and removes the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def end_all(folder: Path, uid: int, gid: int) -> None:
    who = {"user": uid, "group": gid, "extra_groups": []} if os.getuid() == 0 else {}
    for control in folder.glob("*/pg_ctl"):
        data = control.parent / "data"
        if (data / "postmaster.pid").exists():
            wake(data / "postmaster.pid")
            command = [control.read_text(), "stop", "-D", data, "-m", "immediate", "-t", "20"]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", check=False, **who)
    shutil.rmtree(folder, ignore_errors=True)


def wake(postmaster: Path) -> None:
    """A server that a test has stopped hears of nothing before it goes on."""
    with suppress(OSError, ValueError, IndexError):
        os.kill(int(postmaster.read_text().splitlines()[0]), signal.SIGCONT)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
