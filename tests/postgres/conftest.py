"""Servers of every version that is here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import binaries
from tests.postgres.server import Server


@pytest.fixture(scope="session", params=sorted(binaries.found()), ids="postgres {}".format)
def any_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One of each version found, in turn; not to be stopped."""
    with Server(binaries.found()[request.param]) as server:
        yield server
