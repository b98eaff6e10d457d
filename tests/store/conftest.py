"""Stores and worlds, as the crash tests have them; and every back-end that the contract holds for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.store.base import Store
from reenact.values.clock import FixedClock
from tests.crash.conftest import stage
from tests.store.backends import BACKENDS, DURABLE, Backend, made
from tests.store.checks.conftest import original

__all__ = ["original", "stage"]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    yield from made(request, tmp_path)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Those that can be opened again."""
    yield from made(request, tmp_path)


@pytest.fixture
def store(backend: Backend, clock: FixedClock) -> Iterator[Store]:
    store = backend.open(clock)
    yield store
    store.close()
