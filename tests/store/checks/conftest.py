"""One store file for all tests of this folder; each works on a copy."""

from __future__ import annotations

import pytest

from tests.store.checks.store_file import StoreFile


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> StoreFile:
    return StoreFile(tmp_path_factory.mktemp("store") / "store.db")
