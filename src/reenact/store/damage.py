"""Rows that are not what was written: refused where a run is read to go on with it. `verify` tells all of it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final, ParamSpec, TypeVar

from reenact.errors import DamagedRecord

P = ParamSpec("P")
T = TypeVar("T")
NO_BLOB: Final = "the cell is not a blob"
NO_SUCH: Final[dict[type, str]] = {
    bytes: NO_BLOB, str: "the cell is not a text", int: "the cell is not a whole number"
}  # fmt: skip
TELLS_MORE: Final = "`reenact verify RUN` tells more"


def blob(cell: object, where: str) -> bytes:
    """A cell that was written as bytes; DamagedRecord for one that something else was put into."""
    if not isinstance(cell, bytes):
        raise DamagedRecord(f"{where}: {NO_BLOB}; {TELLS_MORE}")
    return cell


def unpacked(unpack: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | str:
    """What was packed, or what is wrong with it."""
    try:
        return unpack(*args, **kwargs)
    except DamagedRecord as error:
        return str(error)
    except (MemoryError, OverflowError):
        return "stored bytes claim a size or a place that no record has"


def refuse_cut_tail(run_id: str, last: int, known: int) -> None:
    """Go on only behind the commit that was written last: nothing in the journal pins it yet.

    Whoever went on with a run that lost its last commits would do again what they tell of.
    """
    if known > last:
        raise DamagedRecord(
            f"run {run_id}: its commits end with {last}, and other tables know of commit {known}: the tail was cut. "
            f"Nothing goes on with it; restore a backup, or see `reenact verify {run_id}`"
        )


def refuse_other_body(run_id: str, n: int, body: bytes, digest: object) -> None:
    if sha256(body).digest() != digest:
        raise DamagedRecord(
            f"run {run_id}, commit {n}: the body is not the one whose digest lies beside it; see `reenact verify "
            f"{run_id}`"
        )
