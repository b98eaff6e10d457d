"""A process that repairs a file, and is killed with SIGKILL where the nth function of its way begins or ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from reenact.record.repair.lines import repair
from tests.fork_server import FORKS


def killed_at(path: str, number: int) -> None:
    seen = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        if frame.f_code.co_filename.endswith(("repair/lines.py", "store/private_file.py")):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    repair(Path(path))
    sys.setprofile(None)


def killed(path: Path, number: int) -> bool:
    """Whether it came so far."""
    process = FORKS.Process(target=killed_at, args=(str(path), number))
    process.start()
    process.join()
    return process.exitcode != 0
