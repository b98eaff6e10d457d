"""Several processes in one, for tests that drive more than one executor in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reenact.store.sqlite.opened import shared


@contextmanager
def another_process() -> Iterator[None]:
    """What is opened within shares no connection with what was opened before, or is afterwards."""
    ours, shared.SHARED = shared.SHARED, shared.OpenFiles()
    try:
        yield
    finally:
        shared.SHARED = ours
