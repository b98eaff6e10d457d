"""What checks and exports ask of a store: its rows as they lie there, in one snapshot.

Nothing here trusts a derived table. A row that cannot be read is given back as what is wrong with it, and a cell of a
derived table is an `object`: whoever can write to the database can put anything into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from reenact.errors import ChecksumMismatch, RunNotFound
from reenact.store.base import PAYLOAD_BITS
from reenact.store.damage import NO_SUCH
from reenact.store.log.rows import LogRows
from reenact.store.naming import read_lines
from reenact.store.signing import SigningKey
from reenact.verify.signed.notes import NoteSource

if TYPE_CHECKING:
    from reenact.store.copying.origins import Origins

COMMITS_PER_RUN = 1 << 24
PAYLOADS_PER_COMMIT = 1 << PAYLOAD_BITS
T = TypeVar("T", bytes, str, int)


# -- rows of evidence ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommitRow:
    n: int
    body: bytes | None
    """None when the stored bytes cannot be unpacked; `problem` says why."""
    problem: str | None = None
    stored: bytes = b""
    """As it is packed."""
    same: bool = True
    """Whether the body is the one whose digest was stored with it."""
    mac: object = None
    """By which the store's key vouches for it; None where it was written before there were any."""


@dataclass(frozen=True, slots=True)
class PayloadPlace:
    """Where an envelope lies: the `k`-th that came with commit `n`. Rows that point to it hold the number."""

    payload_id: int

    @property
    def run_no(self) -> int:
        return self.payload_id // PAYLOADS_PER_COMMIT // COMMITS_PER_RUN

    @property
    def n(self) -> int:
        return self.payload_id // PAYLOADS_PER_COMMIT % COMMITS_PER_RUN

    @property
    def k(self) -> int:
        return self.payload_id % PAYLOADS_PER_COMMIT

    @property
    def row(self) -> str:
        """As reports name it."""
        return f"id {self.payload_id}"


class PayloadRow(NamedTuple):
    place: PayloadPlace
    commitment: object
    stored: object


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


# -- rows of derived tables, cell by cell ----------------------------------------------------------------------------


class RunCells(NamedTuple):
    run_id: object
    kind: object
    mode: object
    parent_run: object
    started_at: object
    plan_id: object
    agent_id: object
    status: object
    token: object
    dedupe_key: object
    session: object


class TraceCells(NamedTuple):
    step_index: int
    trace_id: object
    step_id: object
    commit_n: object


class SharedCells(NamedTuple):
    commitment: object
    payload_id: object


class ContentCells(NamedTuple):
    content_key: object
    payload_id: object
    commitment: object


class KeyCells(NamedTuple):
    server: object
    tool: object
    key: object
    request_digest: object
    agent_id: object
    trace_id: object
    run_no: object
    state: object
    next: object = None
    mac: object = None


class SealCells(NamedTuple):
    number: int
    run_no: object
    seal_digest: object


class SealPlace(NamedTuple):
    """A run's row in the store's chain of seals, and the rows beside it."""

    own: SealCells
    position: int
    """How many rows there are up to it; its number, where none is missing."""
    before: SealCells | None
    after: SealCells | None


class CheckpointCells(NamedTuple):
    n: int
    signed_for: int
    """The number of its commit in the whole store, which is signed with it."""
    frontier: object
    mac: object = None
    """None of one that was signed instead."""


# -- cells that cannot be what they should ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DamagedCell:
    """A cell that cannot hold what its column is for; `row` says which row of the table."""

    table: str
    row: str
    what: str
    commit: int | None = None


class DamagedCells:
    """Those that were met so far, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], DamagedCell] = {}

    def __iter__(self) -> Iterator[DamagedCell]:
        return iter(self._found.values())

    def add(self, table: str, row: str, column: str, problem: str, commit: int | None = None) -> None:
        self._found[table, row, column] = DamagedCell(table, row, f"{column}: {problem}", commit)

    def checked(self, table: str, row: str, column: str, value: object, kind: type[T]) -> T | None:
        """The cell, provided that it is of its column's type and, for a text, that it is one."""
        if isinstance(value, kind) and not (isinstance(value, str) and has_other_bytes(value)):
            return value
        self.add(table, row, column, NO_SUCH[kind])
        return None


def has_other_bytes(text: str) -> bool:
    """Whether it stands for bytes that are no UTF-8."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


# -- the verbs -------------------------------------------------------------------------------------------------------


class RunEvidence(Protocol):
    """The rows of one run."""

    @property
    def number(self) -> int:
        """The store's own name of the run, by which rows and reports point to it. It means nothing elsewhere."""

    @property
    def damaged(self) -> DamagedCells: ...

    def is_there(self) -> bool:
        """Whether it has a commit."""

    def commits(self) -> Iterator[CommitRow]:
        """In order, read in small batches."""

    def last_commit(self) -> CommitRow | None: ...

    def payload_places(self) -> list[tuple[PayloadPlace, str]]:
        """Where each envelope lies, and the commitment that it is kept under, in order."""

    def payloads(self) -> Iterator[PayloadRow]:
        """Every envelope as it is packed, in order, read in small batches."""

    def stored(self, payload_id: int) -> bytes | None:
        """One envelope as it is packed, of this run or of any other."""

    def run_row(self) -> RunCells | None: ...
    def traces(self) -> list[TraceCells]: ...
    def shared_payloads(self) -> list[SharedCells]: ...
    def contents(self) -> list[ContentCells]: ...
    def keyed_calls(self) -> list[KeyCells]: ...
    def run_checkpoints(self) -> list[CheckpointCells]: ...
    def seal_place(self) -> SealPlace | None: ...


class Evidence(Protocol):
    """What lies in a store, in one snapshot. `close` it, or use it in a `with`."""

    @property
    def damaged(self) -> DamagedCells: ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...

    def run(self, number: int) -> RunEvidence:
        """What there is of the run with this number, if only nothing."""

    def named_runs(self, prefix: str) -> list[tuple[int, str]]:
        """(number, run id) of up to two runs whose id begins so, as the table of runs says; `last` is the newest."""

    def run_numbers(self) -> list[int]:
        """Of every run that has a commit, the oldest first."""

    def erasures(self) -> list[ErasureRow]:
        """The store's whole chain of erasures; an empty body where the cell is damaged."""

    def late_effects(self) -> list[LateRow]:
        """What executors left that had lost their lease, of all runs."""

    def keys(self) -> dict[str, str]:
        """kid → public key."""

    def notes(self) -> NoteSource:
        """What was signed beside the journals."""

    def log_rows(self) -> LogRows:
        """The rows of the store's transparency log; nothing can be written through them."""

    def key_of(self, kid: str) -> SigningKey | None:
        """The store's own key of this kid, where whoever checks has it: MACs are checked with it."""

    def vouched_from(self) -> int | None:
        """The number of the first run of which every commit is vouched for and the seal signed, as the store says."""

    def key_secret(self) -> bytes | None:
        """What the store makes idempotency keys with; None where it has none yet."""

    def store_id(self) -> str | None:
        """What the store calls itself."""

    def origins(self) -> Origins:
        """The stores that this one was copied from as a new one; DamagedRecord where that cannot be read."""

    def keyed_call(self, server: str, tool: str, key: str) -> KeyCells | None: ...

    def altered_tables(self) -> list[tuple[str, str]]:
        """Tables that are missing, views, or another than reenact makes, and how: then nothing is read."""

    def altered_guards(self) -> list[str]:
        """What else of the database is missing, changed or none of reenact's: what refuses changes of evidence, above
        all."""


# -- which run -------------------------------------------------------------------------------------------------------


def find_run(evidence: Evidence, prefix: str) -> tuple[RunEvidence, str]:
    """The run whose id begins with `prefix` or the session of that id, and the run id; `last` is the newest one."""
    for _, says in evidence.altered_tables():
        raise ChecksumMismatch(f"{says}; see `reenact doctor`")
    candidates = evidence.named_runs(prefix)
    if len(candidates) != 1 or said_id(evidence.run(candidates[0][0])) != candidates[0][1]:
        candidates = by_commits(evidence, prefix) or candidates
    if not candidates:
        raise RunNotFound(f"no run {prefix!r} in this store; `reenact ls` lists what is there")
    if len(candidates) > 1:
        raise RunNotFound.several(prefix, [run_id for _, run_id in candidates])
    number, run_id = candidates[0]
    return evidence.run(number), run_id


def by_commits(evidence: Evidence, prefix: str) -> list[tuple[int, str]]:
    """Slow and sure: what the first commit of each run says."""
    numbers = evidence.run_numbers()
    found = [(number, run_id) for number in numbers if (run_id := said_id(evidence.run(number))) is not None]
    if prefix == "last":
        return found[-1:]
    return [item for item in found if prefix and item[1].startswith(prefix)]


def said_id(run: RunEvidence, *, unchanged: bool = False) -> str | None:
    """The run id that the first commit of a run says; on request only where that has its digest."""
    first = next(run.commits(), None) if run.is_there() else None
    if first is None or first.body is None or (unchanged and not first.same):
        return None
    run_id = next(read_lines(first.body), {}).get("run_id")
    return run_id if isinstance(run_id, str) else None
