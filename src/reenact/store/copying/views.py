"""What lies in a copy of another store, as it concerns one run: as it was where the run began."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from reenact.store.copying.origins import Origin, Origins
from reenact.store.evidence import Evidence
from reenact.store.keys.heads import MARKER
from reenact.store.log.rows import LogRows
from reenact.store.naming import read_lines
from reenact.verify.signed.notes import NoteRow, NoteSource


def evidence_of(evidence: Evidence, run_no: int) -> Evidence:
    """What lies in the store, as it concerns the run of this number."""
    origins = evidence.origins()
    if not origins.stores:
        return evidence
    origin = origins.of(run_no)
    return cast("Evidence", Here(evidence, origins) if origin is None else There(evidence, origin))


def evidence_of_run(evidence: Evidence, run_id: str) -> Evidence:
    """The same, of the run with this id."""
    numbers = evidence.named_runs(run_id) if evidence.origins().stores else []
    return evidence_of(evidence, numbers[0][0]) if numbers else evidence


class Here:
    """Of a run that began here: without what stores before this one have signed."""

    def __init__(self, evidence: Evidence, origins: Origins) -> None:
        self._evidence = evidence
        self._origins = origins

    def __getattr__(self, name: str) -> object:
        return getattr(self._evidence, name)

    def notes(self) -> NoteSource:
        others = self._origins.ids
        return Notes(self._evidence.notes(), lambda row: row.store_id not in others)

    def vouched_from(self) -> int | None:
        return said_from(self.notes()) or self._origins.last_run + 1


class There:
    """Of a run that began in a store before this one: as that store had it, but for what was not copied."""

    def __init__(self, evidence: Evidence, origin: Origin) -> None:
        self._evidence = evidence
        self._origin = origin

    def __getattr__(self, name: str) -> object:
        return getattr(self._evidence, name)

    @property
    def says(self) -> str:
        """For whoever reads a report."""
        return (
            f"the run began in store {self._origin.store_id}, of which this one is a copy: what is signed of it is "
            "signed for that one, whose log and idempotency keys are not here"
        )

    def store_id(self) -> str | None:
        return self._origin.store_id

    def keys(self) -> dict[str, str]:
        return dict(self._origin.keys)

    def key_secret(self) -> bytes | None:
        return None

    def notes(self) -> NoteSource:
        return Notes(self._evidence.notes(), lambda row: row.store_id == self._origin.store_id)

    def vouched_from(self) -> int | None:
        return said_from(self.notes())

    def log_rows(self) -> LogRows:
        return cast("LogRows", NoLog())


class Notes:
    """`reenact.verify.signed.notes.NoteSource`: some of those of another."""

    def __init__(self, notes: NoteSource, wanted: Callable[[NoteRow], bool]) -> None:
        self._notes = notes
        self._wanted = wanted

    def with_records(self) -> list[NoteRow]:
        return self._some(self._notes.with_records())

    def about(self, digest: str, /) -> list[NoteRow]:
        return self._some(self._notes.about(digest))

    def _some(self, rows: Iterable[NoteRow]) -> list[NoteRow]:
        return [row for row in rows if self._wanted(row)]


class NoLog:
    """Of a log that is somewhere else."""

    def number_of(self, _run_no: int, /) -> int | None:
        return None

    def size(self) -> int:
        return 0

    seal_count = size

    def contradictions(self) -> list[tuple[str, bytes]]:
        return []

    def peers(self, _kind: str, /) -> list[object]:
        return []


def said_from(notes: NoteSource) -> int | None:
    """The number of the first run that is vouched for whole, by the note that says so."""
    for row in notes.with_records():
        said = next(read_lines(row.record), {}).get("last_run") if isinstance(row.record, bytes) else None
        if row.schema == MARKER and isinstance(said, int):
            return said + 1
    return None
