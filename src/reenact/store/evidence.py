"""The evidence of an SQLite store as it lies there, row by row, in one snapshot. For whoever checks or exports it.

Nothing here trusts a derived table: a run is found by what its first commit says, and a row that cannot be read is
given back as what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from reenact.errors import DamagedRecord, JsonSyntaxError, RunNotFound
from reenact.store.base import PAYLOAD_BITS
from reenact.store.deltas import HEAD, SALT, base_of
from reenact.store.naming import read_lines
from reenact.store.reading import open_to_read
from reenact.values.canonical import parse_canonical

COMMITS_PER_RUN = 1 << 24
PAYLOADS_PER_COMMIT = 1 << PAYLOAD_BITS
BATCH = 64


@dataclass(frozen=True, slots=True)
class CommitRow:
    n: int
    body: bytes | None
    """None when the stored bytes cannot be unpacked; `problem` says why."""
    problem: str | None = None
    recoded: bool = False
    """True when the same content is packed in another way than this version packs it."""
    same: bool = True
    """Whether the body is the one whose digest was stored with it."""


@dataclass(frozen=True, slots=True)
class PayloadPlace:
    """Where an envelope lies: the `k`-th that came with commit `n`."""

    payload_id: int

    @property
    def n(self) -> int:
        return self.payload_id // PAYLOADS_PER_COMMIT % COMMITS_PER_RUN

    @property
    def k(self) -> int:
        return self.payload_id % PAYLOADS_PER_COMMIT


class Evidence:
    """Reads one store file. `close` it, or use it in a `with`."""

    def __init__(self, path: str) -> None:
        self.connection = open_to_read(path)
        self.connection.query("BEGIN")  # one snapshot, however long the reading takes

    def __enter__(self) -> Evidence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return self.connection.query(sql, parameters)

    # -- which run -------------------------------------------------------------------------------------------------

    def find(self, prefix: str) -> tuple[int, str]:
        """(run_no, run_id) of the run whose id begins with `prefix`; `last` is the newest one."""
        candidates = self._by_runs_table(prefix)
        if len(candidates) != 1 or self.run_id_at(candidates[0][0]) != candidates[0][1]:
            candidates = self._by_commits(prefix) or candidates
        if not candidates:
            raise RunNotFound(f"no run {prefix!r} in this store; `reenact ls` lists what is there")
        if len(candidates) > 1:
            raise RunNotFound(f"{prefix!r} is the beginning of several run ids; give more of it")
        return candidates[0]

    def _by_runs_table(self, prefix: str) -> list[tuple[int, str]]:
        if prefix == "last":
            return self.query("SELECT run_no, run_id FROM runs ORDER BY run_no DESC LIMIT 1")
        if not prefix:
            return []
        return self.query(
            "SELECT run_no, run_id FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 2", (prefix, prefix + "~")
        )

    def _by_commits(self, prefix: str) -> list[tuple[int, str]]:
        """Slow and sure: what the first commit of each run says."""
        numbers = [row[0] for row in self.query("SELECT DISTINCT id >> 24 FROM commits ORDER BY 1")]
        found = [(number, run_id) for number in numbers if (run_id := self.run_id_at(number)) is not None]
        if prefix == "last":
            return found[-1:]
        return [item for item in found if prefix and item[1].startswith(prefix)]

    def run_id_at(self, run_no: int) -> str | None:
        """The run id that the first commit of a run number says."""
        first = next(self.commits(run_no), None)
        if first is None or first.body is None:
            return None
        head = next(read_lines(first.body), {})
        run_id = head.get("run_id")
        return run_id if isinstance(run_id, str) else None

    # -- the evidence of one run -----------------------------------------------------------------------------------

    def commits(self, run_no: int) -> Iterator[CommitRow]:
        """The rows of a run in order, read in small batches."""
        low = last = run_no * COMMITS_PER_RUN
        while rows := self.query(
            f"SELECT id, body, digest FROM commits WHERE id > ? AND id < ? ORDER BY id LIMIT {BATCH}",
            (last, low + COMMITS_PER_RUN),
        ):
            for row_id, stored, digest in rows:
                yield self._commit(row_id - low, stored, digest)
                last = row_id

    def last_commit(self, run_no: int) -> CommitRow | None:
        low = run_no * COMMITS_PER_RUN
        rows = self.query(
            "SELECT id, body, digest FROM commits WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1",
            (low, low + COMMITS_PER_RUN),
        )
        return self._commit(rows[0][0] - low, rows[0][1], rows[0][2]) if rows else None

    def _commit(self, n: int, stored: object, digest: object) -> CommitRow:
        body = unpacked(self.connection.codec.unpack, stored)
        if isinstance(body, str):
            return CommitRow(n, None, body)
        recoded = self.connection.codec.pack_body(body) != stored
        return CommitRow(n, body, recoded=recoded, same=sha256(body).digest() == digest)

    def payload_places(self, run_no: int) -> list[tuple[PayloadPlace, str]]:
        """Where each envelope of a run lies, and the commitment that it is kept under, in order."""
        low = run_no * COMMITS_PER_RUN * PAYLOADS_PER_COMMIT
        rows = self.query(
            "SELECT id, commitment FROM payloads WHERE id >= ? AND id < ? ORDER BY id",
            (low, low + COMMITS_PER_RUN * PAYLOADS_PER_COMMIT),
        )
        return [(PayloadPlace(row_id), kept.hex() if isinstance(kept, bytes) else str(kept)) for row_id, kept in rows]

    def envelope(self, payload_id: int) -> tuple[bytes, bool]:
        """(envelope, whether it is packed in another way than this version packs it).

        What cannot be unpacked comes as it is, and fits no commitment.
        """
        rows = self.query("SELECT body FROM payloads WHERE id = ?", (payload_id,))
        stored = rows[0][0] if rows else b""
        envelope = unpacked(self.connection.envelope, stored)
        if isinstance(envelope, str):
            return (stored if isinstance(stored, bytes) else str(stored).encode()), False
        return envelope, self._is_recoded(stored, envelope)

    def _is_recoded(self, stored: bytes, envelope: bytes) -> bool:
        pack = self.connection.codec.pack_envelope
        if base_of(stored) is None:
            return pack(envelope) != stored
        # Which other envelope it builds on was chosen by what was at hand; only what is its own is packed again.
        _, _, prefix, suffix = HEAD.unpack_from(stored, 1)
        return pack(envelope[SALT + prefix : len(envelope) - suffix]) != stored[1 + HEAD.size + SALT :]

    # -- the evidence of the store ---------------------------------------------------------------------------------

    def erasures(self) -> list[tuple[int, int, bytes]]:
        """(id, run_no, record) of the store's whole chain of erasures."""
        rows = self.query("SELECT id, run_no, body FROM erasures ORDER BY id")
        return [(row[0], row[1], row[2] if isinstance(row[2], bytes) else str(row[2]).encode()) for row in rows]

    def keys(self) -> dict[str, str]:
        return {str(kid): str(key) for kid, key in self.query("SELECT kid, public_key FROM keys ORDER BY kid")}


def unpacked(unpack: Callable[[bytes], bytes], stored: object) -> bytes | str:
    """The bytes that were packed, or what is wrong with the cell."""
    if not isinstance(stored, bytes):
        return "the cell is not a blob"
    try:
        return unpack(stored)
    except DamagedRecord as error:
        return str(error)
    except (MemoryError, OverflowError):
        return "stored bytes claim a size or a place that no record has"


class StoredEnvelopes:
    """The envelopes of one run by commitment, for the verifier and the export."""

    def __init__(self, evidence: Evidence, run_no: int) -> None:
        self._evidence = evidence
        self.recoded: set[str] = set()
        self.places: dict[str, int] = {}
        for place, commitment in evidence.payload_places(run_no):
            self.places.setdefault(commitment, place.payload_id)

    def get(self, commitment: str, /) -> bytes | None:
        payload_id = self.places.get(commitment)
        if payload_id is None:
            return None
        envelope, recoded = self._evidence.envelope(payload_id)
        if recoded:
            self.recoded.add(commitment)
        return envelope

    def value(self, commitment: object) -> Any:
        """The value behind a commitment as far as it can be read; None otherwise. Not verified."""
        envelope = self.get(commitment) if isinstance(commitment, str) else None
        if envelope is None:
            return None
        try:
            return parse_canonical(envelope[32:])
        except JsonSyntaxError:
            return None
