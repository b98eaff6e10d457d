"""Nothing has reached the world when a test begins."""

from __future__ import annotations

import pytest

from tests.runtime.session.answering.programs import MADE


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()
