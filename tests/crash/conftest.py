"""Where crash tests keep their files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Stage
from tests.postgres.fixtures import Schemas

MEMORY = Path("/dev/shm")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A store and a world. In memory where that is possible: what dies here is the process, not the machine."""
    if not MEMORY.is_dir():
        yield Stage(tmp_path)
        return
    folder = Path(tempfile.mkdtemp(prefix="reenact-crash-", dir=MEMORY))
    yield Stage(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def elsewhere(stage: Stage, new_schema: Schemas) -> Iterator[Stage]:
    """A store in a database, and a world."""
    with new_schema() as url:
        yield Stage(stage.folder, url)
