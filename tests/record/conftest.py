"""One store with runs of every kind; whoever changes it works on a copy of the file."""

from __future__ import annotations

import pytest

from tests.store.checks.store_file import StoreFile


@pytest.fixture(scope="module")
def original(engine: str, tmp_path_factory: pytest.TempPathFactory) -> StoreFile:
    return StoreFile(tmp_path_factory.mktemp("store") / "store.db")
