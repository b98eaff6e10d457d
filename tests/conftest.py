"""What every test may ask for."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import in_memory, quiet_forks
from tests.engines.plugin import (
    _has_its_store_there,
    database,
    engine,
    pytest_collection_modifyitems,
    pytest_generate_tests,
)
from tests.postgres.fixtures import new_schema, pooler, postgres, server_url, store_url

__all__ = [
    "_has_its_store_there",
    "database",
    "engine",
    "new_schema",
    "pooler",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_generate_tests",
    "server_url",
    "store_url",
]

# How long an example takes says something about the machine, not about the code: no test may fail for it.
settings.register_profile("reenact", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("reenact")

in_memory.begin()
quiet_forks.begin()

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

NOT_WRITTEN = sys.dont_write_bytecode
sys.dont_write_bytecode = False
"""pytest compiles the package and its tests in a way of its own, and every pytest that a test starts would again."""


def pytest_collection_finish() -> None:
    """What is there before the first test stays there: no search for garbage, and no fork, has to look through it."""
    sys.dont_write_bytecode = NOT_WRITTEN
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_policy_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What whoever runs the tests allows plans decides nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("REENACT_POLICY", raising=False)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared vectors beside the checkout; tests that need it are skipped where it is absent."""
    if not (SHARED / "vectors").is_dir():
        pytest.skip("the shared vectors are not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT
