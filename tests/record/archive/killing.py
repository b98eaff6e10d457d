"""A process that archives or restores, and is killed with SIGKILL where the nth function of its way begins.

`python -m pytest -q tests/record/archive -k killed` with KILL_EVERY=1 kills at each of them; the short form at a dozen.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from reenact.record.archive.moving import candidates, move
from reenact.record.archive.restoring import restore
from reenact.store.open import open_store
from tests.fork_server import FORKS

ON_THE_WAY = ("record/archive/", "record/export.py", "record/packing.py", "store/private_file.py",
              "store/sqlite/archiving.py", "store/sqlite/erasing.py", "store/sqlite/connection.py",
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
    opened = open_store(store)
    runs = [each.run_id for each in candidates(opened, before_ms=1 << 45)]
    if number:
        kill_at(number)
    for run_id in runs:
        move(opened, run_id, Path(folder), who="ada", reason="old", at_once=3)
    sys.setprofile(None)
    opened.close()


def restore_all(store: str, folder: str, number: int = 0) -> None:
    opened = open_store(store)
    runs = [row.run_id for row in opened.runs() if any(each.values for each in opened.archives(row.run_id))]
    if number:
        kill_at(number)
    for run_id in runs:
        restore(opened, run_id, at_once=3)
    sys.setprofile(None)
    opened.close()


DOES = {"archive": archive_all, "restore": restore_all}


def killed(does: str, store: Path, folder: Path, number: int) -> bool:
    """Whether it came so far."""
    process = FORKS.Process(target=DOES[does], args=(str(store), str(folder), number))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0
