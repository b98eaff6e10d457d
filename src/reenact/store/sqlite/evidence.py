"""The evidence of an SQLite store as it lies there, row by row, in one snapshot. For whoever checks or exports it.

Nothing here trusts a derived table: a run is found by what its first commit says, and a row that cannot be read is
given back as what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from reenact.errors import DamagedRecord, JsonSyntaxError, RunNotFound
from reenact.store.base import PAYLOAD_BITS
from reenact.store.damage import NO_BLOB
from reenact.store.deltas import DEEPEST, HEAD, SALT, base_of, put_together
from reenact.store.naming import read_lines
from reenact.store.sqlite.reading import open_to_read
from reenact.values.canonical import parse_canonical

COMMITS_PER_RUN = 1 << 24
PAYLOADS_PER_COMMIT = 1 << PAYLOAD_BITS
BATCH = 64
LAST_ROW = 1 << 62
KINDS: dict[type, str] = {bytes: NO_BLOB, str: "the cell is not a text", int: "the cell is not a whole number"}
T = TypeVar("T", bytes, str, int)


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
class DamagedCell:
    """A cell that cannot hold what its column is for; `row` says which row of the table."""

    table: str
    row: str
    what: str
    commit: int | None = None


@dataclass(frozen=True, slots=True)
class ErasureRow:
    row_id: int
    run_no: int | None
    """None where the cell is damaged."""
    body: bytes


@dataclass(frozen=True, slots=True)
class LateRow:
    row_id: int
    run_no: int | None
    trace_id: str | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class PayloadPlace:
    """Where an envelope lies: the `k`-th that came with commit `n`."""

    payload_id: int

    @classmethod
    def of(cls, run_no: int, n: int, k: int) -> PayloadPlace:
        return cls((run_no * COMMITS_PER_RUN + n) * PAYLOADS_PER_COMMIT + k)

    @property
    def run_no(self) -> int:
        return self.payload_id // PAYLOADS_PER_COMMIT // COMMITS_PER_RUN

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
        # Text that is none stays text, whatever its bytes: a cell is told from a blob, and never refuses to be read.
        self.connection.db.text_factory = as_text
        self.connection.query("BEGIN")  # one snapshot, however long the reading takes
        self.damaged: dict[tuple[str, str, str], DamagedCell] = {}
        """What was found so far, by table, row and column."""

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

    def run_id_at(self, run_no: int, *, unchanged: bool = False) -> str | None:
        """The run id that the first commit of a run number says; on request only where that has its digest."""
        first = next(self.commits(run_no), None) if self.has_run(run_no) else None
        if first is None or first.body is None or (unchanged and not first.same):
            return None
        head = next(read_lines(first.body), {})
        run_id = head.get("run_id")
        return run_id if isinstance(run_id, str) else None

    def has_run(self, run_no: int) -> bool:
        """Whether there is a commit under this number."""
        low = run_no * COMMITS_PER_RUN
        if not 0 <= low < LAST_ROW:
            return False
        return bool(self.query("SELECT 1 FROM commits WHERE id > ? AND id < ? LIMIT 1", (low, low + COMMITS_PER_RUN)))

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
        found = []
        for row_id, kept in rows:
            place = PayloadPlace(row_id)
            if isinstance(kept, bytes):
                found.append((place, kept.hex()))
            else:
                self._damage("payloads", f"id {row_id}", "commitment", NO_BLOB, place.n)
        return found

    def envelope(self, payload_id: int) -> tuple[bytes, bool]:
        """(envelope, whether it is packed in another way than this version packs it).

        What cannot be unpacked is empty, and fits no commitment.
        """
        stored = self._stored(payload_id)
        if stored is None:
            return b"", False
        envelope = unpacked(self._put_together, stored)
        if isinstance(envelope, str):
            self._damage("payloads", f"id {payload_id}", "body", envelope, PayloadPlace(payload_id).n)
            return b"", False
        return envelope, self._is_recoded(stored, envelope)

    def _stored(self, payload_id: int) -> bytes | None:
        rows = self.query("SELECT body FROM payloads WHERE id = ?", (payload_id,))
        if not rows:
            return None
        if not isinstance(rows[0][0], bytes):
            self._damage("payloads", f"id {payload_id}", "body", NO_BLOB, PayloadPlace(payload_id).n)
            return None
        return bytes(rows[0][0])

    def _put_together(self, stored: bytes) -> bytes:
        """An envelope from the rows that it is built on; DamagedRecord where one of them is not there."""
        chain = [stored]
        while (base := base_of(chain[-1])) is not None:
            under = self._stored(base)
            if under is None or len(chain) > DEEPEST + 1:
                raise DamagedRecord(f"stored bytes build on payload {base}, which is not there")
            chain.append(under)
        envelope = self.connection.codec.unpack(chain.pop())
        while chain:
            envelope = put_together(self.connection.codec, chain.pop(), envelope[SALT:])
        return envelope

    def _is_recoded(self, stored: bytes, envelope: bytes) -> bool:
        pack = self.connection.codec.pack_envelope
        if base_of(stored) is None:
            return pack(envelope) != stored
        # Which other envelope it builds on was chosen by what was at hand; only what is its own is packed again.
        _, _, prefix, suffix = HEAD.unpack_from(stored, 1)
        return pack(envelope[SALT + prefix : len(envelope) - suffix]) != stored[1 + HEAD.size + SALT :]

    # -- the evidence of the store ---------------------------------------------------------------------------------

    def erasures(self) -> list[ErasureRow]:
        """The store's whole chain of erasures; an empty body where the cell is damaged."""
        found = []
        for row_id, run_no, body in self.query("SELECT id, run_no, body FROM erasures ORDER BY id"):
            row = f"id {row_id}"
            record = self._cell("erasures", row, "body", body, bytes) or b""
            found.append(ErasureRow(row_id, self._cell("erasures", row, "run_no", run_no, int), record))
        return found

    def late_effects(self) -> list[LateRow]:
        """What executors left that had lost their lease, of all runs."""
        found = []
        rows = self.query("SELECT id, run_no, trace_id, body FROM late_effects ORDER BY id")
        for row_id, run_no, trace_id, body in rows:
            row = f"id {row_id}"
            found.append(
                LateRow(
                    row_id,
                    self._cell("late_effects", row, "run_no", run_no, int),
                    self._cell("late_effects", row, "trace_id", trace_id, str),
                    self._cell("late_effects", row, "body", body, bytes),
                )
            )
        return found

    def keys(self) -> dict[str, str]:
        """kid → public key."""
        found = {}
        for number, (kid, key) in enumerate(self.query("SELECT kid, public_key FROM keys ORDER BY kid"), start=1):
            row = f"kid {kid}" if isinstance(kid, str) else f"number {number}"
            name, text = self._cell("keys", row, "kid", kid, str), self._cell("keys", row, "public_key", key, str)
            if name is not None and text is not None:
                found[name] = text
        return found

    def store_id(self) -> str | None:
        """What the store calls itself."""
        rows = self.query("SELECT value FROM store WHERE key = 'store_id'")
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def _cell(self, table: str, row: str, column: str, value: object, kind: type[T]) -> T | None:
        """The cell, provided that it is of its column's type and, for a text, that it is one."""
        if isinstance(value, kind) and not (isinstance(value, str) and has_other_bytes(value)):
            return value
        self._damage(table, row, column, KINDS[kind])
        return None

    def _damage(self, table: str, row: str, column: str, problem: str, commit: int | None = None) -> None:
        self.damaged[table, row, column] = DamagedCell(table, row, f"{column}: {problem}", commit)


def as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def has_other_bytes(text: str) -> bool:
    """Whether it stands for bytes that are no UTF-8."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def unpacked(unpack: Callable[[bytes], bytes], stored: object) -> bytes | str:
    """The bytes that were packed, or what is wrong with the cell."""
    if not isinstance(stored, bytes):
        return NO_BLOB
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
