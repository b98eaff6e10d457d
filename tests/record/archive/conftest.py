"""A command on a fresh store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import Command


@pytest.fixture
def reenact(tmp_path: Path) -> Command:
    return Command(tmp_path)
