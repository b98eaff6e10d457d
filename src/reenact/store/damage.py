"""Rows that are not what was written: refused where a run is read to go on with it. `verify` tells all of it."""

from __future__ import annotations

import re
import sqlite3
from hashlib import sha256
from typing import Final

from reenact.errors import DamagedRecord
from reenact.store.base import PAYLOAD_BITS
from reenact.store.compression import Codec

NO_BLOB: Final = "the cell is not a blob"
_NO_TEXT: Final = re.compile(r"Could not decode to UTF-8 column '(\w+)'")


def blob(cell: object, where: str) -> bytes:
    """A cell that was written as bytes; DamagedRecord for one that something else was put into."""
    if not isinstance(cell, bytes):
        raise DamagedRecord(f"{where}: {NO_BLOB}; `reenact verify RUN` tells more")
    return cell


def no_text(error: Exception, path: str) -> DamagedRecord | None:
    """What to say of bytes that were put into a cell as text; None for any other error."""
    found = _NO_TEXT.match(str(error))
    return None if found is None else DamagedRecord(f"{path}: {found[1]}: {NO_BLOB}; `reenact verify RUN` tells more")


def refuse_other_tail(db: sqlite3.Connection, codec: Codec, run_id: str, run_no: int) -> None:
    """Go on only behind the commit that was written last: nothing in the journal pins it yet.

    Whoever went on with a run that lost its last commits would do again what they tell of.
    """
    low = run_no << 24
    last, traced, stored = db.execute(
        "SELECT coalesce((SELECT max(id) FROM commits WHERE id > ?1 AND id < ?2), ?1) - ?1, "
        "(SELECT commit_n FROM traces WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1), "
        "((SELECT max(id) FROM payloads WHERE id >= ?1 << ?3 AND id < ?2 << ?3) >> ?3) - ?1",
        (low, low + (1 << 24), PAYLOAD_BITS),
    ).fetchone()
    known = max((n for n in (traced, stored) if isinstance(n, int)), default=0)
    if known > last:
        raise DamagedRecord(
            f"run {run_id}: its commits end with {last}, and other tables know of commit {known}: the tail was cut. "
            f"Nothing goes on with it; restore a backup, or see `reenact verify {run_id}`"
        )
    row = db.execute(
        "SELECT CAST(body AS BLOB), CAST(digest AS BLOB) FROM commits WHERE id = ?", (low + last,)
    ).fetchone()
    if row is not None and sha256(codec.unpack(row[0])).digest() != row[1]:
        raise DamagedRecord(
            f"run {run_id}, commit {last}: the body is not the one whose digest lies beside it; see `reenact verify "
            f"{run_id}`"
        )
