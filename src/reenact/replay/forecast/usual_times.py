"""How long calls took before, for an estimate of how long they will take."""

from __future__ import annotations

from collections.abc import Collection
from statistics import median_low

from reenact.errors import ReenactError
from reenact.journal.fold import TraceFold
from reenact.record.reader import RunReader
from reenact.replay.sources.recorded import elapsed_ms
from reenact.store.base import Store

RUNS = 20


def usual_times(store: Store, references: Collection[str], *, runs: int = RUNS) -> dict[str, int]:
    """`id@version` → the median of what such calls took that succeeded, waits included, in the newest live runs."""
    found: dict[str, list[int]] = {}
    for row in store.runs(limit=runs):
        if row.mode != "live":
            continue
        try:
            for step in RunReader(store, row.run_id).steps():
                reference = f"{step.trace.meta('skill_id')}@{step.trace.meta('skill_version')}"
                if step.trace.state == "COMPLETED" and reference in references:
                    found.setdefault(reference, []).append(time_of(step.trace))
        except ReenactError:
            continue  # a damaged run says nothing about time
    return {reference: median_low(times) for reference, times in found.items()}


def time_of(trace: TraceFold) -> int:
    """The attempts of a call and the waits between them, in milliseconds."""
    return sum(elapsed_ms(attempt) + (attempt.backoff_ms or 0) for attempt in trace.attempts)
