"""A process that archives or restores, and is killed with SIGKILL where the nth function of its way begins.

`python -m pytest -q tests/record/archive -k killed` with KILL_EVERY=1 kills at each of them; the short form at a dozen.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from reenact.record.archive.moving import candidates, move
from reenact.record.archive.restoring import restore
from tests.engines.places import opened, store_at
from tests.fork_server import FORKS

ON_THE_WAY = ("record/archive/", "record/export.py", "record/packing.py", "store/private_file.py",
              "store/sqlite/archiving.py", "store/sqlite/erasing.py", "store/sqlite/connection.py", "store/postgres/",
              "verify/verifier.py")  # fmt: skip


def kill_at(number: int) -> None:
    """This process, in the beginning or at the end of the function that is passed as the `number`th on the way."""
    seen = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        if event in ("call", "return") and any(part in frame.f_code.co_filename for part in ON_THE_WAY):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)


def archive_all(store: str, folder: str, number: int = 0) -> None:
    kept = opened(store)
    runs = [each.run_id for each in candidates(kept, before_ms=1 << 45)]
    if number:
        kill_at(number)
    for run_id in runs:
        move(kept, run_id, Path(folder), who="ada", reason="old", at_once=3)
    sys.setprofile(None)
    kept.close()


def restore_all(store: str, folder: str, number: int = 0) -> None:
    kept = opened(store)
    runs = [row.run_id for row in kept.runs() if any(each.values for each in kept.archives(row.run_id))]
    if number:
        kill_at(number)
    for run_id in runs:
        restore(kept, run_id, at_once=3)
    sys.setprofile(None)
    kept.close()


DOES = {"archive": archive_all, "restore": restore_all}


def begin(does: str, environment: dict[str, str], *where: Any) -> None:
    os.environ.update(environment)
    DOES[does](*where)


def killed(does: str, store: Path, folder: Path, number: int) -> bool:
    """Whether it came so far."""
    process = FORKS.Process(target=begin, args=(does, dict(os.environ), store_at(store), str(folder), number))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0
