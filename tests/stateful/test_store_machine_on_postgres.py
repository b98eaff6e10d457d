"""The same machine in a database, where leases go by the server's clock: here it is the one of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from reenact.store.base import LEASE_MS, Store
from tests.postgres.fixtures import Schemas
from tests.stateful.test_store_machine import Known, StoreMachine
from tests.store.backends import PostgresSchema

SCHEMAS: list[Schemas] = []
"""Of the test that runs just now."""


class PostgresMachine(StoreMachine):
    def opened(self) -> Store:
        if not hasattr(self, "backend"):
            self.schema = ExitStack()
            self.backend = PostgresSchema(self.folder, self.schema.enter_context(SCHEMAS[-1]()))
        return self.backend.open(self.clock)

    def teardown(self) -> None:
        super().teardown()
        self.schema.close()

    def unrenewed_ms(self, known: Known) -> int:
        """Whoever has just opened the store knows as much as anybody."""
        return LEASE_MS if known.expires <= self.now else 0


@pytest.fixture
def schemas(new_schema: Schemas) -> Iterator[None]:
    SCHEMAS.append(new_schema)
    yield
    SCHEMAS.pop()


TestStoreOnPostgres = pytest.mark.usefixtures("schemas")(PostgresMachine.TestCase)
TestStoreOnPostgres.settings = settings(max_examples=10, stateful_step_count=25)
