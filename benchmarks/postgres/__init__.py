"""What a store in PostgreSQL costs, on a server that is started for it: beside others, far away, and grown large.

In: nothing. Out: figures; `python -m benchmarks postgres` prints them. `beside.py`, `far.py` and `room.py` measure;
`large.py` is a campaign of its own: `python -m benchmarks.postgres.large`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

from benchmarks.figure import Figure

SETTINGS = {
    "fsync": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}

"""No checkpoint and no vacuum of its own while it is measured: what they write is not a step's."""


def measure(rounds: int = 5) -> Iterator[Figure]:
    from tests.postgres.server import Server

    from benchmarks.postgres import beside, far, room

    with tempfile.TemporaryDirectory() as folder, Server(settings=SETTINGS) as server:
        os.environ["XDG_DATA_HOME"] = folder
        yield from beside.measure(server, rounds)
        yield from far.measure(server)
        yield from room.measure(server)
