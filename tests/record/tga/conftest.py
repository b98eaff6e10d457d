"""Views of these tests are left as they are; the threads that renew their locks are not: other tests fork."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.record.tga import state_store
from reenact.store.base import Store
from reenact.store.heartbeat import Heartbeat


@pytest.fixture(autouse=True)
def no_heartbeat_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[Heartbeat] = []

    class Kept(Heartbeat):
        def __init__(self, store: Store) -> None:
            super().__init__(store)
            made.append(self)

    monkeypatch.setattr(state_store, "Heartbeat", Kept)
    yield
    for heartbeat in made:
        for run_id in list(heartbeat._leases):
            heartbeat.drop(run_id)
