"""A disk that is full when a test says so: a small file system of its own, on which a database lies.

To mount one is a right that only root has, or who runs tests in a container that lets him.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.postgres.binaries import user
from tests.postgres.server import Server

SIZE_MB: Final = 48
PART: Final = 1 << 16


class Disk:
    """A file fills it."""

    def __init__(self, place: Path) -> None:
        self._ballast = place / "ballast"

    def fill(self) -> None:
        with suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(PART))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(server: Server, database: str, folder: Path) -> Iterator[Disk]:
    """What `database`, which is made, lies on."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=711", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("a full disk is a small file system, and this user may mount none")
    try:
        place = folder / "tables"
        place.mkdir(mode=0o700)
        if os.getuid() == 0:
            os.chown(place, user().pw_uid, user().pw_gid)
        server.execute(f"CREATE TABLESPACE {database} LOCATION '{place}'")
        server.add_database(database, more=f"TABLESPACE {database}")
        yield Disk(folder)
    finally:
        Disk(folder).free()
        server.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        server.execute(f"DROP TABLESPACE IF EXISTS {database}")
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()
