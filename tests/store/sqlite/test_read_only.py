"""A file that SQLite was told does not change is watched while it is read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from reenact.errors import StoreUnavailable
from reenact.store.sqlite.read_only import StillConnection, open_read_only, open_to_read
from reenact.store.sqlite.store import SqliteStore
from tests.crash.harness import in_child
from tests.store.sqlite.powerless import give_up_powers, reopen, shut


@pytest.fixture
def still(tmp_path: Path) -> StillConnection:
    path = tmp_path / "a name with ? and # and % and ü.db"
    SqliteStore(str(path)).close()

    def open_it() -> None:
        give_up_powers()
        assert isinstance(open_to_read(str(path)), StillConnection)
        db, is_still = open_read_only(str(path))
        assert is_still
        db.close()

    folder = path.parent
    shut(folder)
    assert in_child(open_it) == 0
    reopen(folder)
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    return StillConnection(str(path), db)


def test_it_is_read_as_long_as_it_does_not_change(still: StillConnection) -> None:
    assert still.query("SELECT count(*) FROM runs") == [(0,)]


@pytest.mark.parametrize("part", ["", "-wal"])
def test_what_was_read_from_a_file_that_changed_is_not_given(still: StillConnection, part: str) -> None:
    with Path(f"{still.path}{part}").open("ab") as file:
        file.write(os.urandom(10))
    with pytest.raises(StoreUnavailable, match="was written to while it was read; read a copy"):
        still.query("SELECT count(*) FROM runs")
