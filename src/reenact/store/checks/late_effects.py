"""Late effects in a store, held against what runs took over of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from reenact.errors import JsonSyntaxError
from reenact.store.checks.rebuild import Rebuilt
from reenact.store.envelopes import StoredEnvelopes
from reenact.store.evidence import LateRow
from reenact.values.canonical import parse_canonical
from reenact.verify.report import Where, shown


class LateEffects:
    """The rows of one run. Anybody may leave something at any time; what a run took over must stay as it was."""

    def __init__(self, rows: list[LateRow], run_no: int, rebuilt: Rebuilt, envelopes: StoredEnvelopes) -> None:
        self._all = rows
        self._rows = [row for row in rows if row.run_no == run_no]
        self._rebuilt = rebuilt
        self._taken = [
            (trace_id, envelope[32:])
            for trace_id, commitment in rebuilt.late
            if (envelope := envelopes.get(commitment)) is not None
        ]

    def problems(self, erased: set[int | None]) -> Iterator[tuple[str, Where]]:
        """(what is wrong, where). `erased` are the runs of which something was erased."""
        for number, row in enumerate(self._all, start=1):
            if row.row_id != number:
                yield f"the rows are numbered without a gap, and number {number} is missing", place(row)
                break
        for row in self._rows:
            problem = self._gone_problem(row, erased) if row.trace_id == "" else self._row_problem(row)
            if problem is not None:
                yield problem, place(row)
        left = Counter((row.trace_id, row.body) for row in self._rows)
        for trace_id, body in self._taken:
            if (trace_id, body) not in left:
                yield "what the run took over is not among them", Where(file="late_effects", trace_id=trace_id)
        seen: set[tuple[str | None, bytes | None]] = set()
        for row in self._rows:
            if row.trace_id != "" and (row.trace_id, row.body) in seen:
                yield "it is there twice", place(row)
            seen.add((row.trace_id, row.body))

    def notes(self) -> list[str]:
        taken = set(self._taken)
        return [
            f"late_effects, id {row.row_id}: it came too late, and no record names it"
            for row in self._rows
            if row.trace_id and row.body is not None and (row.trace_id, row.body) not in taken
        ]

    def _gone_problem(self, row: LateRow, erased: set[int | None]) -> str | None:
        """What went with an erasure leaves its number, and nothing else."""
        if row.body != b"":
            return "it belongs to no call, and holds something"
        return None if row.run_no in erased else "it is emptied, and nothing of its run was erased"

    def _row_problem(self, row: LateRow) -> str | None:
        if row.trace_id is None or row.body is None:
            return None  # told as a damaged cell
        try:
            value = parse_canonical(row.body)
        except JsonSyntaxError:
            return "it is not canonical JSON"
        if not isinstance(value, dict) or value.get("trace_id") != row.trace_id:
            return "it is of another call than its row says"
        known = {trace_id for trace_id, _, _ in self._rebuilt.traces.values()}
        if row.trace_id not in known and self._rebuilt.seal is not None:
            return "it belongs to no call of the run"
        return None


def place(row: LateRow) -> Where:
    trace_id = None if not row.trace_id else shown(row.trace_id)
    return Where(file="late_effects", row=f"id {row.row_id}", trace_id=trace_id)
