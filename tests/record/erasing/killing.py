"""A process that erases values, and is killed with SIGKILL where the nth function of its way begins or ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from reenact.record.erase import erase
from tests.crash.harness import KILLED, in_child
from tests.engines.places import opened

ON_THE_WAY = ("record/erase.py", "store/erasures.py", "store/keys/notes.py", "store/sqlite/", "store/postgres/")


def erase_all(path: Path, run_id: str, step_id: str | None) -> int:
    store = opened(path)
    try:
        return erase(store, run_id, step_id, who="ada", reason="asked")
    finally:
        store.close()


def passed(path: Path, run_id: str, step_id: str | None) -> int:
    """How many beginnings and ends of functions are on its way. It comes to its end."""
    seen = path.with_name("passed")
    assert not killed(path, run_id, step_id, 0, seen)
    return int(seen.read_text())


def killed(path: Path, run_id: str, step_id: str | None, number: int, count: Path | None = None) -> bool:
    """Whether it came so far."""

    def work() -> None:
        seen = 0

        def look(frame: FrameType, event: str, _: object) -> None:
            nonlocal seen
            if event in ("call", "return") and any(part in frame.f_code.co_filename for part in ON_THE_WAY):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(look)
        erase_all(path, run_id, step_id)
        sys.setprofile(None)
        if count is not None:
            count.write_text(str(seen))

    ended = in_child(work)
    assert ended in (0, KILLED), ended
    return ended == KILLED
